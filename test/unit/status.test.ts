import { expect, it } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { Config, members } from '../../src/protocol/config.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { makeCore } from '../../src/supervisor/core.ts'
import { makeStatus } from '../../src/supervisor/status.ts'

it('names each ready task that nobody on the team can ever be given, and why', async () => {
  const config = Config.parse({ teammates: [{ name: 'alice' }, { name: 'reader', tools: ['ls', 'read_file'] }] })
  const o = {
    root: '/r',
    workspace: '/r',
    mode: 'dir' as const,
    config,
    members: members(config),
    clock,
    hub: null,
    sandboxed: false,
  }
  const core = makeCore({ ...o, store: openMemoryStore(clock) }, () => null)
  const drops = [
    { title: 'for nobody', assignee: 'carol' },
    { title: 'cannot', needs: ['pottery'] },
    { title: 'fits' },
    { title: 'later', needs: ['pottery'], blockedBy: ['fits'] },
  ]
  unwrap(core.tasks.add(drops, { by: 'human' }))
  const status = await makeStatus(core, { hello: null, asOf: null, probe: null, live: null, problems: [], archived: 0 })
  expect(status.problems).toEqual([
    'task 1 "for nobody" can be given to nobody: it is assigned to carol, who is not on the team',
    'task 2 "cannot" can be given to nobody: it needs pottery',
  ])
})
