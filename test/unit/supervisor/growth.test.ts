import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { clock } from '../../../src/lib/clock.ts'
import { ok, unwrap } from '../../../src/lib/result.ts'
import { Config, members } from '../../../src/protocol/config.ts'
import { openMemoryStore } from '../../../src/store/memory.ts'
import { makeCore } from '../../../src/supervisor/core.ts'
import { openLog } from '../../../src/supervisor/log.ts'
import { Notices } from '../../../src/supervisor/notices.ts'
import { Shutdown } from '../../../src/supervisor/shutdown.ts'
import type { Threads } from '../../../src/supervisor/threads.ts'

const setup = () => {
  const root = mkdtempSync(join(tmpdir(), 'team-growth-'))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const config = Config.parse({ teammates: [{ name: 'alice' }, { name: 'bob' }] })
  const store = openMemoryStore(clock)
  const core = makeCore(
    { store, root, workspace: root, mode: 'dir', config, members: members(config), clock, hub: null, sandboxed: false },
    () => null,
  )
  return { root, core, store }
}

describe('the ids of an inbox', () => {
  const inbox = () => {
    const { core, store } = setup()
    const log = store.inbox('alice')
    return {
      mail: core.mail,
      log,
      send: (id: string, content = id) => core.mail.send({ from: 'user', to: 'alice', id, content }),
      rotate: () => log.trim(log.last, { event: 'inbox.rotated', by: 'supervisor' }),
    }
  }

  it('are forgotten two rotations later, so that a long life does not gather them', () => {
    const { mail, send, rotate } = inbox()
    for (let round = 0; round < 5; round++) {
      for (let i = 0; i < 3; i++) unwrap(send(`msg_${round}_${i}`))
      rotate()
    }
    unwrap(send('msg_last'))
    const kept = (round: number) => [0, 1, 2].filter(i => mail.find('alice', `msg_${round}_${i}`))
    expect([0, 1, 2, 3, 4].map(kept)).toEqual([[], [], [], [], [0, 1, 2]])
    expect(mail.find('alice', 'msg_last')).toBeDefined()
  })

  it('stay known over a rotation: what is sent again is the same message, whatever came after it', () => {
    const { log, send, rotate } = inbox()
    unwrap(send('msg_one'))
    rotate()
    unwrap(send('msg_one'))
    expect(log.last).toBe(1)
    unwrap(send('msg_two'))
    unwrap(send('msg_one'))
    expect(log.last).toBe(2)
    expect(send('msg_one', 'another')).toMatchObject({ ok: false, fault: { code: 'conflict' } })
  })
})

describe('shutdowns', () => {
  it('are let go of when they are done, and each teammate is ended once', async () => {
    const { root, core, store } = setup()
    const ended: string[] = []
    const log = openLog(root, join(root, 'log'), text => text, clock)
    onTestFinished(() => log.close())
    const threads: Pick<Threads, 'status' | 'leave' | 'stop' | 'restart'> = {
      status: () => ({ state: 'idle' }) as ReturnType<Threads['status']>,
      leave: async name => {
        ended.push(name)
        return 'bye'
      },
      stop: async name => {
        ended.push(name)
        return 'forced'
      },
      restart: () => ok(undefined),
    }
    const shutdown = new Shutdown({
      core,
      threads: threads as Threads,
      notices: new Notices(core, log),
      afterStop: async () => {},
      onFailure: error => {
        throw error
      },
    })
    store.requests.watch((_id, { value }, old) => {
      if (value.type !== 'shutdown_request') return
      shutdown.advance(value)
      if (!old) setImmediate(() => unwrap(core.requests.decide(value.id, value.to, 'approve', null)))
    })
    for (let round = 1; round <= 3; round++) {
      const asked = { force: false, timeoutMs: 60_000, by: 'human' } as const
      // Two who ask at once for the same are told the same.
      const both = await Promise.all([shutdown.all(asked), shutdown.all(asked)])
      for (const told of both)
        expect(unwrap(told).stopped).toEqual([
          { name: 'alice', how: 'idle' },
          { name: 'bob', how: 'idle' },
        ])
      expect(shutdown.underWay).toBe(0)
      for (const request of core.requests.all()) shutdown.advance(request as never)
      expect([ended.length, core.requests.all().length]).toEqual([2 * round, 2 * round])
    }
  })
})
