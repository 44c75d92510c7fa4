import { fail, ok, type Result } from '../lib/result.ts'
import type { JournalEntry, Words } from '../protocol/event.ts'
import type { Call, RpcParams } from '../protocol/rpc.ts'
import { findRoot } from '../store/find-root.ts'
import type { Client } from '../store/rpc/client.ts'
import type { Offline } from '../supervisor/offline.ts'
import type { Cli, Globals } from './cli.ts'
import { connectDaemon } from './connect-daemon.ts'
import { when } from './render/text.ts'
import { version } from './version.ts'

/** A team root being asked: its daemon where one runs, else its files. */
export interface Team {
  readonly root: string
  readonly call: Call
  /** A daemon answers. */
  readonly online: boolean
  /**
   * Entries of the journal as they happen (after the last `limit` of the past), until nobody reads stdout any more or the
   * daemon ends; of `online` teams only.
   */
  follow(
    onEntry: (entry: JournalEntry) => void,
    params?: Omit<RpcParams<'events'>, 'follow'>,
    onWords?: (words: Words) => void,
  ): Promise<Result<number>>
  /** Says, on stderr, what waits for the next `team up`; nothing where a daemon runs. */
  later(what: string): void
}

/**
 * Finds the team root and asks it. `read`: the daemon, else the files, marked as of when. `status`: the same, where the
 * answer itself says as of when. `change`: the daemon, else the root is held for a moment (a live holder of that kind is
 * waited for). `daemon`: fault `offline` where none runs.
 */
export const withTeam = async (
  cli: Cli,
  args: Globals,
  need: 'read' | 'status' | 'change' | 'daemon',
  act: (team: Team) => Promise<Result<number>>,
): Promise<Result<number>> => {
  const found = findRoot({ root: args.root, cwd: cli.cwd, env: cli.env })
  if (!found.ok) return found
  const root = found.value
  const client = await connectDaemon(root)
  if (client.ok) {
    try {
      return await act(online(cli, root, client.value.client))
    } finally {
      client.value.client.close()
    }
  }
  if (client.fault.code !== 'offline') return client
  if (need === 'daemon') return client
  // All that only the holder of a root needs: most commands find a daemon and never pay for it.
  const [{ loadConfig }, { holdForAMoment, readOnly }] = await Promise.all([
    import('../store/root.ts'),
    import('../supervisor/offline.ts'),
  ])
  const loaded = loadConfig(root)
  if (!loaded.ok) return loaded
  const { workspace, mode, config, members } = loaded.value
  const options = { root, workspace, mode, config, members, version, clock: cli.clock, env: cli.env }
  const opened = need === 'read' || need === 'status' ? await readOnly(options) : await holdForAMoment(options)
  if (!opened.ok) return opened
  if (need === 'read' && opened.value.asOf !== null)
    cli.out.note(`no daemon is running; as of ${when(opened.value.asOf, cli.clock.wall())}`)
  try {
    return await act(offline(cli, root, opened.value))
  } finally {
    await opened.value.close()
  }
}

const online = (cli: Cli, root: string, client: Client): Team => ({
  root,
  call: client.call,
  online: true,
  follow: async (onEntry, params = {}, onWords = undefined) => {
    const ended = await client.follow(params, onEntry, cli.out.closed, onWords)
    if (ended.ok) return ok(0)
    if (ended.fault.code !== 'offline' && ended.fault.code !== 'closed') return ended
    cli.out.note('the daemon has ended')
    return ok(0)
  },
  later: () => undefined,
})

const offline = (cli: Cli, root: string, held: Offline): Team => ({
  root,
  call: held.call,
  online: false,
  follow: () => Promise.resolve(fail('offline', `no daemon runs for ${root}`, 'start it with: team up')),
  later: what => cli.out.note(`no daemon is running. ${what}`),
})
