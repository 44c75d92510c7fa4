import { delay } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import type { Hello } from '../protocol/rpc.ts'
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
  const answered = new AbortController()
  const hello = await Promise.race([
    client.value.call('hello', {}),
    delay(patienceMs, answered.signal).then(
      () => fail('io', `the daemon of ${root} does not answer`, 'Is it stopped? .team/holder.json has its pid.'),
      () => fail('io', 'it answered'),
    ),
  ])
  answered.abort()
  if (hello.ok && hello.value.kind === 'daemon') return ok({ client: client.value, hello: hello.value })
  client.value.close()
  return hello.ok ? fail('offline', `no daemon runs for ${root}`, 'start it with: team up') : hello
}
