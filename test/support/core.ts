import { clock as realClock } from '../../src/lib/clock.ts'
import { Config, members } from '../../src/protocol/config.ts'
import type { Status } from '../../src/protocol/rpc.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { makeCore } from '../../src/supervisor/core.ts'
import { makeHandlers } from '../../src/supervisor/handlers.ts'

const unused = () => {
  throw new Error('not asked in this test')
}

/** The acts and handlers of a holder over the memory store, in dir mode; `config` as in config.json. */
export const coreOf = (config: Readonly<Record<string, unknown>>, clock = realClock) => {
  const parsed = Config.parse(config)
  const store = openMemoryStore(clock)
  const core = makeCore(
    {
      store,
      root: '/nowhere',
      workspace: '/nowhere',
      mode: 'dir',
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
