import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { killVariable } from '../../src/lib/points.ts'
import type { Reply, ScriptedRequest } from '../../src/model/scripted.ts'
import { ended, statusOf, teamOk, until } from '../support/cli.ts'
import { gate, lastSaid, scriptedTeam } from '../support/scripted-team.ts'

const isAsked = (request: ScriptedRequest): boolean =>
  lastSaid(request).includes('Your conversation is put together now')
const summary = '## 目标\n写完。\n## 决定\n无\n## 状态\n做了一半\n## 待办\n继续\n## 文件\n无'
const step: Reply = { text: 'w'.repeat(4000), calls: [{ name: 'todo', args: { items: [] } }] }
const complete: Reply = { calls: [{ name: 'task', args: { action: 'complete', summary: 'done' } }] }
const said = (request: ScriptedRequest | undefined): string =>
  request?.messages.map(({ content }) => content ?? '').join('\n') ?? ''
const times = (text: string, part: string): number => text.split(part).length - 1
const transcripts = (root: string): string[] =>
  readdirSync(join(root, '.transcripts')).filter(file => file.endsWith('.md'))

/** Works in steps that fill its window until `isDone`. */
const worker = (config: object, isDone: () => boolean) =>
  scriptedTeam(
    {
      alice: request =>
        isAsked(request)
          ? summary
          : !said(request).includes('<task') || said(request).includes('claimed')
            ? 'Read.'
            : isDone()
              ? complete
              : step,
    },
    { mode: 'dir', ...config },
  )

test('team compact in the middle of a task: saved whole, a summary in any language takes its place, the task goes on and ends', async () => {
  const held = gate()
  let isDone = false
  let isHeld = false
  const crew = await scriptedTeam(
    {
      alice: async (request, n) => {
        if (isAsked(request)) return summary
        if (n === 4) {
          isHeld = true
          await held.opened
        }
        return isDone ? complete : n < 6 ? step : 'Read.'
      },
    },
    { mode: 'dir' },
  )
  await crew.up()
  await teamOk(['task', 'add', 'Write the long one', '--root', crew.root])
  await until(() => isHeld)
  expect(await teamOk(['compact', 'alice', '--focus', 'the numbers', '--root', crew.root])).toMatch(
    /before its next step/,
  )
  isDone = true
  held.open()
  const { tasks } = await until(async () => {
    const now = await statusOf(crew.root)
    return now.tasks[0]?.status === 'completed' && now
  })
  expect(tasks).toMatchObject([{ status: 'completed' }])
  expect(await teamOk(['logs', '--root', crew.root])).toMatch(
    /completed task 1 "Write the long one" \(unverified\); tokens: work \d+ in, \d+ out, \d+ calls; coordination \d+ in/,
  )
  const requests = crew.requests('alice')
  const asked = requests.findIndex(isAsked)
  expect(said(requests[asked])).toContain('Keep above all: the numbers')
  const next = said(requests[asked + 1])
  expect(times(next, 'Write the long one')).toBeGreaterThan(0)
  expect(times(next, '做了一半')).toBe(1)
  expect(times(next, 'w'.repeat(4000))).toBeLessThanOrEqual(1)
  const saved = transcripts(crew.root).map(file => readFileSync(join(crew.root, '.transcripts', file), 'utf8'))
  expect(saved.some(text => times(text, 'w'.repeat(4000)) >= 3)).toBe(true)
  expect(await teamOk(['replay', 'alice', '--verify', '--root', crew.root])).toMatch(/same|byte/)
})

for (const point of ['compact.saved', 'compact.asked'])
  test(`H03 killed at ${point}: all is as it was, it is put together once, mail of meanwhile is there once, the task ends`, async () => {
    let isDone = false
    const crew = await worker(
      { model: {}, teammates: [{ name: 'alice', model: { contextWindow: 12_000 } }] },
      () => isDone,
    )
    const child = await crew.up({ [killVariable]: `${point}:1` })
    await teamOk(['task', 'add', 'Write the long one', '--root', crew.root])
    expect(await ended(child)).toBe('SIGKILL')
    const before = crew.requests('alice').length
    expect(crew.requests('alice').filter(isAsked)).toHaveLength(point === 'compact.asked' ? 1 : 0)
    await teamOk(['send', 'alice', 'Mind the commas', '--root', crew.root])
    await crew.up()
    await until(() => crew.requests('alice').slice(before).some(isAsked))
    isDone = true
    await until(async () => (await statusOf(crew.root)).tasks[0]?.status === 'completed')
    const after = crew.requests('alice').slice(before)
    const asked = after.findIndex(isAsked)
    const next = said(after[asked + 1])
    expect(next).toContain('做了一半')
    expect(times(next, 'Write the long one')).toBeGreaterThan(0)
    // Before the question or right after it, and in the transcript or the summary's keeping from then on: never twice in one request.
    for (const request of after) expect(times(said(request), 'Mind the commas')).toBeLessThanOrEqual(1)
    expect(after.some(request => said(request).includes('Mind the commas'))).toBe(true)
    expect(await teamOk(['replay', 'alice', '--verify', '--root', crew.root])).toMatch(/same|byte/)
  })
