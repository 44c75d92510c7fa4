import { createServer, type Server } from 'node:net'

/**
 * A port that can be listened on now, on every interface, and that is not taken by somebody's word. What was tried stays
 * bound until one is found, so that no port comes twice.
 */
export const freePort = async (isTaken: (port: string) => boolean): Promise<string> => {
  const bound: Server[] = []
  try {
    for (;;) {
      const server = await listening()
      bound.push(server)
      const at = server.address()
      const port = typeof at === 'object' && at !== null ? String(at.port) : ''
      if (port !== '' && !isTaken(port)) return port
    }
  } finally {
    await Promise.all(bound.map(server => new Promise(resolve => server.close(resolve))))
  }
}

const listening = (): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ port: 0, exclusive: true }, () => resolve(server))
  })
