import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Person } from '../../src/cli/demo/human.ts'
import { actOf } from '../../src/cli/demo/person.ts'
import { runDemo } from '../../src/cli/demo/run.ts'
import { demoTasks } from '../../src/cli/demo/tasks.ts'
import { fail, ok } from '../../src/lib/result.ts'
import { isWaiting, type Request } from '../../src/protocol/request.ts'
import { command } from '../support/cli.ts'

let dir: string
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'demo-person-'))
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

/** The demo in a folder of its own: how it ended, and its summary. */
const demo = async (name: string, person: Person) => {
  const tmp = join(dir, name)
  mkdirSync(tmp)
  const said: string[] = []
  const exit = await runDemo({
    keep: false,
    json: true,
    team: [process.execPath, command],
    env: { ...process.env, TMPDIR: tmp },
    say: text => void said.push(text),
    person,
  })
  return { exit, summary: JSON.parse(said.join('\n')) }
}

/** The demo with a person who says `line(request)` to each request as it waits; null leaves it for now. */
const led = async (name: string, line: (request: Request, all: readonly Request[]) => string | null) => {
  const refused: string[] = []
  const person: Person = {
    decide: async requests => {
      for (const request of requests.filter(each => isWaiting(each) && each.to === 'human')) {
        const said = line(request, requests)
        const act = said === null ? null : actOf(request, said)
        if (act) return ok([act])
      }
      return ok([])
    },
    refused: (_act, fault) => void refused.push(fault.message),
  }
  return { ...(await demo(name, person)), refused }
}

const taskOf = (request: Request): number =>
  'task' in request.data && request.data.task !== null ? Number(request.data.task) : 0
const odd = 'a ") was rejected by me: no </task>\u0000 $(exit 1) ’'

describe('the demo that a person leads', () => {
  it('comes to eight merged tasks whatever is merged first, each merge rejected once, each answer odd', async () => {
    const no = new Set<number>()
    const { exit, summary } = await led('backwards', (request, all) => {
      if (request.type === 'question') return odd
      if (request.type !== 'merge_request') return 'y'
      // Of what waits, the latest first: those behind meet a trunk that has not moved, those before them one that has.
      const claims = all.filter(each => each.type === 'merge_request')
      const fanOut = new Set(claims.map(taskOf)).size >= 5 || taskOf(request) === taskOf(claims[0] ?? request)
      const later = claims.filter(isWaiting).some(each => taskOf(each) > taskOf(request))
      if (!fanOut || later) return null
      if (no.has(taskOf(request))) return 'y'
      no.add(taskOf(request))
      return 'r Once more, please.'
    })
    expect({ exit, problems: summary.problems, notDone: summary.notDone }).toEqual({
      exit: 0,
      problems: [],
      notDone: [],
    })
    expect(summary).toMatchObject({ tasks: { merged: demoTasks.length }, tests: { passed: 15, failed: 0 } })
    expect(summary.merges.rejected).toHaveLength(demoTasks.length)
  })

  it('ends when its plan is rejected, and says what failed and what waited for it', async () => {
    const { exit, summary } = await led('no-plan', request =>
      request.type === 'plan_request' ? 'r ) was approved by nobody' : request.type === 'question' ? 'a 0' : 'y',
    )
    expect({ exit, problems: summary.problems }).toEqual({ exit: 0, problems: [] })
    expect(summary.notDone.map((each: { task: string }) => each.task)).toEqual([
      'table',
      'report',
      'command',
      'how-to-use',
    ])
    expect(summary.notDone[0].why).toMatch(/^failed \(.*was rejected by human: \) was approved by nobody/)
    expect(summary.notDone[1].why).toBe('waited for table')
    expect(summary).toMatchObject({ tasks: { merged: 4 }, tests: { failed: 0 }, shutdowns: { approved: 4 } })
  })

  it('ends with nothing merged when the first merge is rejected as often as it may come back', async () => {
    const { exit, summary } = await led('never', () => 'r No.')
    expect({ exit, problems: summary.problems }).toEqual({ exit: 0, problems: [] })
    expect(summary.notDone).toHaveLength(demoTasks.length)
    expect(summary.notDone[0]).toMatchObject({ task: 'quoted-cells', why: expect.stringMatching(/^failed .*No\./) })
    expect(summary.tests).toEqual({ passed: 2, failed: 0 })
  })

  it('ends at once, and says why, when the person is gone', async () => {
    const { exit, summary } = await demo('gone', {
      decide: async requests => (requests.some(isWaiting) ? fail('closed', 'the input ended') : ok([])),
      refused: () => undefined,
    })
    expect(exit).toBe(1)
    expect(summary.problems).toEqual(['the input ended'])
  })
})
