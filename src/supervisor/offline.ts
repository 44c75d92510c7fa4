import { existsSync } from 'node:fs'
import { type Hub, openHub } from '../git/hub.ts'
import { type Clock, iso } from '../lib/clock.ts'
import { ok, type Result } from '../lib/result.ts'
import type { Config, Member } from '../protocol/config.ts'
import type { Call, Hello } from '../protocol/rpc.ts'
import { hold, openReadOnly } from '../store/index.ts'
import { checkPlaces } from '../store/places.ts'
import { layout } from '../store/root.ts'
import type { Store } from '../store/store.ts'
import { checkVersions } from '../store/versions.ts'
import { makeCore } from './core.ts'
import { Folders } from './folders.ts'
import { makeHandlers } from './handlers.ts'
import { importRequests } from './import.ts'
import { makeStatus } from './status.ts'
import { withdrawStale } from './withdraw.ts'

export interface OfflineOptions {
  readonly root: string
  readonly workspace: string
  readonly mode: 'git' | 'dir'
  readonly config: Config
  readonly members: readonly Member[]
  readonly version: string
  readonly clock: Clock
  /** Where git finds itself and the person's settings: PATH, HOME. */
  readonly env: Readonly<Record<string, string | undefined>>
}

export interface Offline {
  readonly call: Call
  /** Wall time of the last change, where the root was only read. */
  readonly asOf: string | null
  close(): Promise<void>
}

/**
 * Holds the root for a moment, for one changing command while no daemon runs. Files are brought in line before and after;
 * effects are left to the next daemon. Refused while a daemon lives.
 */
export const holdForAMoment = async (o: OfflineOptions, waitMs = 10_000): Promise<Result<Offline>> => {
  const places = checkPlaces(o.root)
  if (!places.ok) return places
  const versions = checkVersions(o.root)
  if (!versions.ok) return versions
  const held = await hold(o.root, 'cli', { version: o.version, clock: o.clock, waitMs, takeover: false })
  if (!held.ok) return held
  const { store, hello } = held.value
  const hub = await existingHub(o)
  if (!hub.ok) {
    await held.value.release()
    return hub
  }
  const core = makeCore(
    { ...o, store, hub: hub.value, sandboxed: false },
    name => `${name} is not running: it is read after the next team up`,
  )
  importRequests(store, layout(o.root).requests, iso(o.clock.wall()))
  core.tasks.recover()
  core.requests.recover()
  withdrawStale(core)
  const folders = new Folders(core, {
    // The next daemon makes the task; the line is in the log by then.
    onTaskMessage: () => undefined,
    onFailure: error => {
      throw error
    },
  })
  await folders.start()
  const status = () =>
    makeStatus(core, {
      hello: null,
      asOf: null,
      probe: null,
      live: null,
      problems: folders.problems(),
      archived: folders.archivedCount(),
    })
  held.value.serve((method, params, from) =>
    makeTable.call(
      'human',
      method,
      params,
      from.stream === undefined ? undefined : { entry: from.stream, words: from.words, signal: from.signal },
    ),
  )
  const makeTable = makeHandlers(core, status, () => hello, null)
  return ok({
    call: makeTable.human,
    asOf: null,
    close: async () => {
      await folders.settled()
      await folders.close()
      await held.value.release()
    },
  })
}

/** The state as the last holder left it, for a reading command while no daemon runs. Changes are refused by the store. */
export const readOnly = async (o: OfflineOptions): Promise<Result<Offline>> => {
  const versions = checkVersions(o.root)
  if (!versions.ok) return versions
  const opened = await openReadOnly(o.root, o.clock)
  if (!opened.ok) {
    const places = checkPlaces(o.root)
    return places.ok ? opened : places
  }
  const { store, asOf } = opened.value
  const hub = await existingHub(o)
  if (!hub.ok) return hub
  const core = makeCore({ ...o, store: store as Store, hub: hub.value, sandboxed: false }, () => null)
  const hello: Hello = {
    pid: 0,
    kind: 'cli',
    root: o.root,
    epoch: 0,
    version: o.version,
    host: '',
    startedAt: asOf ?? '',
  }
  const status = () => makeStatus(core, { hello: null, asOf, probe: null, live: null, problems: [], archived: 0 })
  const table = makeHandlers(core, status, () => hello, null)
  return ok({ call: table.human, asOf, close: () => Promise.resolve() })
}

/** The hub where a daemon has made one; a moment's holder makes none. */
const existingHub = async (o: OfflineOptions): Promise<Result<Hub | null>> => {
  const { hub } = layout(o.root)
  if (o.mode !== 'git' || !existsSync(hub)) return ok(null)
  return openHub({
    workspace: o.workspace,
    hubDir: hub,
    trunk: o.config.trunk,
    env: o.env,
    ...(o.config.base === undefined ? {} : { base: o.config.base }),
  })
}
