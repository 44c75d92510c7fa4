import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply, ScriptedRequest } from '../../src/model/scripted.ts'
import type { Request } from '../../src/protocol/request.ts'
import { tempFolder, until } from '../support/cli.ts'
import { drive } from '../support/git-team.ts'
import { initRepo } from '../support/repo.ts'
import { gate, heard, killed, lastSaid, scriptedTeam } from '../support/scripted-team.ts'

const call = (name: string, args: object): Reply => ({ calls: [{ name, args }] })

/** Does what it is given: a task by one commit, a review by the next of `verdicts`. */
const mate = (name: string, verdicts: ('approve' | 'reject')[]) => (request: ScriptedRequest) => {
  const last = request.messages.at(-1)
  const said = lastSaid(request)
  const asked = /<request id="(req_\d+)" type="review_request"/.exec(said)?.[1]
  if (last?.role === 'tool') {
    if (String(last.content).startsWith('exit 0'))
      return call('task', { action: 'complete', summary: `${name} did it` })
    return 'Done.'
  }
  if (asked !== undefined) {
    const decision = verdicts.shift() ?? 'approve'
    return call('request', { action: 'decide', id: asked, decision, reason: `${name} says ${decision}` })
  }
  if (said.includes('<task '))
    return call('bash', { command: `echo ${name} >>work.txt && git add -A && git commit -q -m ${name}` })
  return 'Read.'
}

test('a claim is read by one who never had the task; twice rejected it goes to another; approved, its merge is asked for', async () => {
  const repo = initRepo(join(tempFolder(), 'project'), { 'a.txt': 'one\n' })
  const verdicts: ('approve' | 'reject')[] = ['reject', 'reject', 'approve']
  const names = ['ann', 'ben', 'cat']
  const it = await scriptedTeam(Object.fromEntries(names.map(name => [name, mate(name, verdicts)])), {
    workspace: repo.dir,
    sandbox: 'prefer',
    review: true,
    permissions: { allow: ['echo *', 'git *'] },
    approvals: { merge_request: 'auto' },
  })
  await it.up()
  const team = drive(it.root, repo)
  await team.ok('task', 'add', 'Write it down', '-d', 'in work.txt')
  await team.shown('1', 'unverified')
  const requests = await team.requests()
  const reviews = requests.filter(
    (each): each is Request & { type: 'review_request' } => each.type === 'review_request',
  )
  expect(reviews.map(({ status, reason }) => [status, reason?.split(' ')[2]])).toEqual([
    ['rejected', 'reject'],
    ['rejected', 'reject'],
    ['approved', 'approve'],
  ])
  const owners = reviews.map(({ data }) => data.owner)
  const [first, , other] = owners
  expect(owners).toEqual([first, first, other])
  expect(other).not.toBe(first)
  // Nobody who had the task in hand reads it.
  expect([first, first, other].map((name, i) => name === reviews[i]?.decidedBy)).toEqual([false, false, false])
  expect(reviews[2]?.decidedBy).toBe(names.find(name => name !== first && name !== other))
  expect(requests.filter(({ type }) => type === 'merge_request')).toHaveLength(1)
  expect(repo.git('--git-dir', join(it.root, '.team', 'hub.git'), 'show', 'team/trunk:work.txt').split('\n')).toEqual([
    first,
    first,
    other,
  ])
  // The author gets the reasons, whoever goes on with the task too.
  expect(it.requests(first ?? '').some(each => heard(each).includes(`<returned>the review ${reviews[0]?.id}`))).toBe(
    true,
  )
  expect(it.requests(other ?? '').some(each => heard(each).includes(`<returned>the review ${reviews[1]?.id}`))).toBe(
    true,
  )
  const reader = reviews[0]?.decidedBy ?? ''
  const read = it.requests(reader).find(each => lastSaid(each).includes(`<request id="${reviews[0]?.id}"`))
  expect(heard(read)).toContain(`+${first}`)
  expect(heard(read)).toContain('in work.txt')
  const diff = join(it.root, 'team', reader, 'out', 'review', `${reviews[0]?.id}.diff`)
  expect(existsSync(diff) && readFileSync(diff, 'utf8')).toContain(`+${first}`)
})

test('without anybody who may read it the person is asked, and whoever is to read it may be stopped: another is asked', async () => {
  const repo = initRepo(join(tempFolder(), 'project'), { 'a.txt': 'one\n' })
  const stays: Record<string, (request: ScriptedRequest) => Reply> = {
    ann: mate('ann', []),
    // Ends each turn without a word on what it is asked.
    ben: () => 'Hm.',
  }
  const it = await scriptedTeam(stays, {
    workspace: repo.dir,
    sandbox: 'prefer',
    teammates: [{ name: 'ann' }, { name: 'ben', autoClaim: false }],
    permissions: { allow: ['echo *', 'git *'] },
  })
  await it.up()
  const team = drive(it.root, repo)
  await team.ok('task', 'add', 'Write it down', '--review')
  const review = (to: string) =>
    until(async () => (await team.requests()).find(each => each.type === 'review_request' && each.to === to), 60_000)
  const ofBen = await review('ben')
  await team.ok('down', 'ben')
  const ofHuman = await review('human')
  expect((await team.requests()).find(({ id }) => id === ofBen.id)).toMatchObject({
    outcome: 'withdrawn',
    reason: 'ben does not run',
  })
  expect(await team.ok('diff', ofHuman.id)).toContain('+ann')
  expect((await team.task('1')).shown).toBe('claimed')
  await team.ok('approve', ofHuman.id)
  const merge = await team.merge('1')
  await team.ok('approve', merge.id)
  await team.shown('1', 'unverified')
})

test('one whose budget has no room for the reading is not waited for: another is asked, and it goes on later', async () => {
  const repo = initRepo(join(tempFolder(), 'project'), { 'a.txt': 'one\n' })
  const it = await scriptedTeam(
    { ann: mate('ann', []), ben: () => 'Read.' },
    {
      workspace: repo.dir,
      sandbox: 'prefer',
      review: true,
      teammates: [{ name: 'ann' }, { name: 'ben', autoClaim: false, budget: { tokens: 10 } }],
      permissions: { allow: ['echo *', 'git *'] },
      approvals: { merge_request: 'auto' },
    },
  )
  await it.up()
  const team = drive(it.root, repo)
  await team.ok('task', 'add', 'Write it down')
  const asked = (type: string, from: string, to: string) =>
    until(
      async () => (await team.requests()).find(each => each.type === type && each.from === from && each.to === to),
      60_000,
    )
  const raise = await asked('resource_request', 'ben', 'human')
  const review = await asked('review_request', 'supervisor', 'human')
  expect((await team.requests()).filter(({ type }) => type === 'review_request')[0]).toMatchObject({
    to: 'ben',
    outcome: 'withdrawn',
    reason: `ben waits for more of its budget (${raise.id})`,
  })
  await team.ok('approve', review.id)
  await team.shown('1', 'unverified')
  await team.ok('reject', raise.id, '--reason', 'no')
  await until(async () => {
    const ben = (await team.status()).teammates.find(({ name }) => name === 'ben')
    return ben?.waiting?.whom === 'human' && ben.waiting.request === undefined
  }, 60_000)
})

test('a daemon killed while a review is read: the next start has it read again, and what it approves is merged once', async () => {
  const repo = initRepo(join(tempFolder(), 'project'), { 'a.txt': 'one\n', '.gitignore': '.env\n' })
  writeFileSync(join(repo.dir, '.env'), 'SECRET=1\n')
  const reads = gate()
  const held = gate()
  const ben = mate('ben', [])
  let isFirst = true
  const it = await scriptedTeam(
    {
      ann: mate('ann', []),
      ben: async request => {
        if (isFirst && lastSaid(request).includes('type="review_request"')) {
          isFirst = false
          reads.open()
          await held.opened
        }
        return ben(request)
      },
    },
    {
      workspace: repo.dir,
      sandbox: 'prefer',
      review: true,
      teammates: [{ name: 'ann' }, { name: 'ben', autoClaim: false }],
      permissions: { allow: ['echo *', 'git *'] },
      approvals: { merge_request: 'auto' },
    },
  )
  const child = await it.up()
  const team = drive(it.root, repo)
  await team.ok('task', 'add', 'Write it down')
  await reads.opened
  await killed(child)
  held.open()
  await it.up()
  await team.shown('1', 'unverified')
  const reviews = (await team.requests()).filter(({ type }) => type === 'review_request')
  expect(reviews.map(({ to, status, decidedBy }) => [to, status, decidedBy])).toEqual([['ben', 'approved', 'ben']])
  const hub = ['--git-dir', join(it.root, '.team', 'hub.git')]
  expect(repo.git(...hub, 'log', '--merges', '--format=%s', 'team/trunk')).toBe('Merge task 1: Write it down')
  // The clone has no .env, and its teammate is told why.
  expect(heard(it.requests('ann')[0])).toContain("but in the person's workspace: .env.")
})

test('in dir mode a claim is read before verify runs; rejected, its author gets it back, and the next claim is read anew', async () => {
  const repo = initRepo(join(tempFolder(), 'project'), { 'a.txt': 'one\n' })
  const it = await scriptedTeam(
    { ann: mate('ann', []), ben: mate('ben', ['reject', 'approve']) },
    {
      workspace: repo.dir,
      mode: 'dir',
      review: true,
      verify: 'grep -q ann work.txt',
      teammates: [{ name: 'ann' }, { name: 'ben', autoClaim: false }],
      permissions: { allow: ['echo *', 'git *'] },
    },
  )
  await it.up()
  const team = drive(it.root, repo)
  await team.ok('task', 'add', 'Write it down')
  expect(await team.shown('1', 'completed')).toMatchObject({ returns: 1, result: { outcome: 'verified' } })
  const reviews = (await team.requests()).filter(({ type }) => type === 'review_request')
  expect(reviews.map(({ status }) => status)).toEqual(['rejected', 'approved'])
  const events = team.events().map(({ event }) => event)
  expect(events.filter(event => event === 'verify.started')).toHaveLength(1)
  expect(events.indexOf('verify.started')).toBeGreaterThan(events.lastIndexOf('request.decided'))
})
