import { fail, faultCodes, type Result } from '../lib/result.ts'
import type { Call } from '../protocol/rpc.ts'
import type { FromThread, ToThread } from '../protocol/thread.ts'

type Answer = Extract<ToThread, { t: 'res' }>

/**
 * Asks the holder over the thread's port. An answer means that it is durable; there is no time-out, since a slow holder
 * still answers and a dead one takes this thread along. After `close` everything is answered `closed`.
 */
export const portCall = (
  post: (message: FromThread) => void,
): { readonly call: Call; answer(message: Answer): void; close(): void } => {
  const waiting = new Map<number, (result: Result<unknown>) => void>()
  let next = 1
  let closed = false
  const ask = (method: string, params: unknown): Promise<Result<unknown>> =>
    new Promise(resolve => {
      if (closed) return resolve(fail('closed', 'this teammate is ending'))
      const id = next++
      waiting.set(id, resolve)
      post({ t: 'req', id, method, params })
    })
  return {
    // What comes back was made by the holder in this same process for this very method.
    call: ask as Call,
    answer(message) {
      const resolve = waiting.get(message.id)
      waiting.delete(message.id)
      if (message.ok) return resolve?.({ ok: true, value: message.value })
      const { code, message: text, hint } = message.fault
      resolve?.(fail(faultCodes.find(known => known === code) ?? 'internal', text, hint))
    },
    close() {
      closed = true
      for (const resolve of waiting.values()) resolve(fail('closed', 'this teammate is ending'))
      waiting.clear()
    },
  }
}
