import { clock as realClock } from '../../src/lib/clock.ts'
import { Config, members } from '../../src/protocol/config.ts'
import type { Status } from '../../src/protocol/rpc.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import { type Core, makeCore } from '../../src/supervisor/core.ts'
import { makeHandlers } from '../../src/supervisor/handlers.ts'
import { Suspicion } from '../../src/supervisor/suspicion.ts'

const unused = () => {
  throw new Error('not asked in this test')
}

/** Nothing is suspected. */
export const suspicionOf = (core: Core): Suspicion =>
  new Suspicion({
    core,
    onLetGo: () => undefined,
    onFailure: error => {
      throw error
    },
  })

/** The acts and handlers of a holder over the memory store; `config` as in config.json. `store`: of an earlier holder. */
export const coreOf = (
  config: Readonly<Record<string, unknown>>,
  clock = realClock,
  {
    mode = 'dir',
    store = openMemoryStore(clock),
    workspace = '/nowhere',
  }: { mode?: 'git' | 'dir'; store?: Store; workspace?: string } = {},
) => {
  const parsed = Config.parse(config)
  const core = makeCore(
    {
      store,
      root: '/nowhere',
      workspace,
      mode,
      config: parsed,
      members: members(parsed),
      clock,
      hub: null,
      sandboxed: false,
    },
    () => null,
  )
  return { store, core, handlers: makeHandlers(core, unused as () => Promise<Status>, unused, null) }
}
