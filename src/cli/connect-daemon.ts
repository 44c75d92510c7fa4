import { delay } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { Hello, Status } from '../protocol/rpc.ts'
import { type Client, connect } from '../store/rpc/client.ts'

/** A daemon that is not stopped says hello within a few milliseconds; one under a heavy load, within this. */
const patienceMs = 10_000

/**
 * The daemon of `root`. A command that holds the root for a moment is none: fault `offline`, as when nobody listens. Fault
 * `io` where one listens and does not answer. Part of the fast path: imports nothing heavy.
 */
export const connectDaemon = async (root: string): Promise<Result<{ client: Client; hello: Hello }>> => {
  const client = await connect(root)
  if (!client.ok) return client
  const hello = await soon(root, client.value.call('hello', {}))
  if (hello.ok && hello.value.kind === 'daemon') return ok({ client: client.value, hello: hello.value })
  client.value.close()
  return hello.ok ? noDaemon(root) : hello
}

/** What the daemon of `root` answers to `status`, in one round trip: the answer itself tells who gives it. Faults as above. */
export const daemonStatus = async (root: string): Promise<Result<Status>> => {
  const client = await connect(root)
  if (!client.ok) return client
  const status = await soon(root, client.value.call('status', {}))
  client.value.close()
  return status.ok && status.value.holder?.kind !== 'daemon' ? noDaemon(root) : status
}

const noDaemon = (root: string) => fail('offline', `no daemon runs for ${root}`, 'start it with: team up')

const soon = async <T>(root: string, answer: Promise<Result<T>>): Promise<Result<T>> => {
  const answered = new AbortController()
  const first = await Promise.race([
    answer,
    delay(patienceMs, answered.signal).then(
      () => fail('io', `the daemon of ${root} does not answer`, 'Is it stopped? .team/holder.json has its pid.'),
      () => fail('io', 'it answered'),
    ),
  ])
  answered.abort()
  return first
}
