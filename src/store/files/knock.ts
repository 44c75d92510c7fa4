import { createConnection } from 'node:net'
import { errnoOf } from '../../lib/files.ts'

/**
 * Whether somebody listens at a socket. A process that is stopped or busy still listens; a dead one does not, and no
 * clock, pid or file decides it.
 */
export type Knock =
  /** `gone` resolves when the listener ends the connection; `leave` ends it from here. */
  | { readonly is: 'alive'; readonly gone: Promise<void>; readonly leave: () => void }
  | { readonly is: 'dead' }
  /** Another user's: it cannot be told. */
  | { readonly is: 'barred'; readonly cause: Error }

export const knock = (path: string): Promise<Knock> =>
  new Promise((resolve, reject) => {
    const socket = createConnection(path)
    const gone = new Promise<void>(ended => socket.once('close', () => ended()))
    const leave = () => void socket.destroy()
    let isConnected = false
    socket.once('connect', () => {
      isConnected = true
      socket.resume()
      resolve({ is: 'alive', gone, leave })
    })
    socket.on('error', error => {
      // The end of a connection that was made; `gone` tells of it.
      if (isConnected) return
      switch (errnoOf(error)) {
        case 'ECONNREFUSED':
        case 'ENOENT':
        case 'ENOTDIR':
          resolve({ is: 'dead' })
          break
        // The queue of connections is full: nobody accepts them, but somebody listens.
        case 'EAGAIN':
          resolve({ is: 'alive', gone: new Promise(() => {}), leave })
          break
        // It stopped listening just after the connection had been queued: what it is now has to be looked at anew.
        case 'ECONNRESET':
        case 'EPIPE':
          knock(path).then(resolve, reject)
          break
        case 'EACCES':
        case 'EPERM':
          resolve({ is: 'barred', cause: error })
          break
        default:
          reject(error)
      }
    })
  })
