import type { Result } from '../lib/result.ts'
import type { Call, RpcMethod, RpcParams, RpcResults } from '../protocol/rpc.ts'

/** What a thread must know of what its own tools brought about. */
export interface Outcomes {
  /** The task in hand left it: how, in words. */
  taskLeft(how: string): void
  /** This teammate's shutdown was approved. */
  shutdown(reason: string): void
}

/** The same `call`, with the outcomes that end a task or this thread told as soon as the holder answered. */
export const watched =
  (name: string, call: Call, on: Outcomes): Call =>
  async <M extends RpcMethod>(method: M, params: RpcParams<M>): Promise<Result<RpcResults[M]>> => {
    const result = await call(method, params)
    if (!result.ok) return result
    const answer: { method: RpcMethod; value: RpcResults[RpcMethod] } = { method, value: result.value }
    if (method === 'task.complete')
      on.taskLeft(`claimed done: ${(params as RpcParams<'task.complete'>).summary}`.trim())
    if (is(answer, 'task.release')) on.taskLeft('released')
    if (is(answer, 'task.fail')) on.taskLeft(`failed: ${answer.value.task.error ?? 'no reason given'}`)
    if (is(answer, 'request.decide')) {
      const { request } = answer.value
      if (request.type === 'shutdown_request' && request.data.teammate === name && request.status === 'approved')
        on.shutdown(request.reason ?? 'approved')
    }
    return result
  }

const is = <M extends RpcMethod>(
  answer: { method: RpcMethod; value: unknown },
  method: M,
): answer is { method: M; value: RpcResults[M] } => answer.method === method
