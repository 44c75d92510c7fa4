import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import { tempFolder, until } from '../support/cli.ts'
import { fingerprint, type GitTeam, gitTeam, runbook } from '../support/git-team.ts'
import { initRepo } from '../support/repo.ts'

let server: ScriptedServer | null = null
afterEach(async () => {
  await server?.close()
  server = null
})

const project = (files: Record<string, string> = {}) =>
  initRepo(join(tempFolder(), 'project'), { 'a.txt': 'one\ntwo\nthree\n', ...files })

const hubGit =
  (it: GitTeam) =>
  (...args: string[]): string =>
    it.repo.git('--git-dir', join(it.root, '.team', 'hub.git'), ...args)

const read = (it: GitTeam, file: string) => readFileSync(join(it.repo.dir, file), 'utf8')

test('auto: merged without anybody; the base that moved meanwhile is in the next branch; land says what keeps it from landing', async () => {
  const it = gitTeam(
    { teammates: [{ name: 'ann' }], approvals: { merge_request: 'auto' }, verify: 'node --version' },
    project(),
  )
  await it.ok('up', '-d')
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One'))
  expect((await it.shown('1', 'completed')).result?.outcome).toBe('merged')
  expect((await it.requests()).map(({ decidedBy, reason }) => [decidedBy, reason])).toEqual([
    ['supervisor', 'approvals.merge_request is auto'],
  ])
  // The person goes on working on the base.
  const person = it.repo.commit('By hand', { 'hand.txt': 'hand\n' })
  it.drop(
    'two.md',
    `---\ntitle: Two\n---\n~~~sh\nnode -e "require('fs').accessSync('hand.txt')"\n~~~\n${runbook.steps({ 'two.txt': '2\n' }, 'Two')}`,
  )
  await it.shown('2', 'completed')
  expect((await it.status()).base?.commit).toBe(person)

  it.repo.write({ 'a.txt': 'mine\n', 'two.txt': 'in the way\n' })
  const before = fingerprint(it.repo)
  const dirty = await it.team('land')
  expect([dirty.code, dirty.stderr]).toEqual([
    5,
    expect.stringMatching(/has uncommitted changes: a.txt.*commit or stash/s),
  ])
  it.repo.git('checkout', '-q', 'a.txt')
  const way = await it.team('land')
  expect([way.code, way.stderr]).toEqual([5, expect.stringMatching(/would be overwritten: two.txt/)])
  expect([read(it, 'two.txt'), fingerprint(it.repo).refs]).toEqual(['in the way\n', before.refs])
  it.repo.git('clean', '-q', '-f')
  expect(await it.ok('land')).toMatch(/landed by fast-forward/)
  expect([read(it, 'one.txt'), read(it, 'two.txt'), it.repo.git('status', '--porcelain')]).toEqual(['1\n', '2\n', ''])
  expect(await it.ok('land')).toContain('has everything of the trunk already')
  expect((await it.status()).trunk?.ahead).toBe(0)

  // Both sides change one line: told in status, nothing moves, and land refuses with the file.
  it.drop('three.md', runbook('Three', { 'a.txt': 'team\n' }, 'Three'))
  await it.shown('3', 'completed')
  it.repo.commit('Against it', { 'a.txt': 'person\n' })
  it.drop('four.md', runbook('Four', { 'four.txt': '4\n' }, 'Four'))
  await it.shown('4', 'completed')
  expect((await it.status()).problems).toContainEqual(
    expect.stringMatching(/base main moved .* conflicts with the trunk in a.txt/),
  )
  const refused = await it.team('land')
  expect([refused.code, refused.stderr]).toEqual([5, expect.stringMatching(/both changed a.txt/)])
  expect([read(it, 'a.txt'), it.repo.git('status', '--porcelain')]).toEqual(['person\n', ''])
})

test('the lead decides merges of others, a person those of the lead', async () => {
  // Approves each merge that is shown to it, works on its own task, and talks otherwise.
  server = await startScripted(({ messages }) => {
    const last = messages.at(-1)
    const text = messages.findLast(message => message.role === 'user')?.content ?? ''
    const asked = /<request id="(req_\d+)" type="merge_request"/.exec(text)?.[1]
    if (last?.role === 'user' && asked !== undefined)
      return {
        calls: [{ name: 'request', args: { action: 'decide', id: asked, decision: 'approve', reason: 'read it' } }],
      }
    if (last?.role === 'user' && /<task id="/.test(text))
      return { calls: [{ name: 'bash', args: { command: 'touch boss.txt && git add -A && git commit -qm Boss' } }] }
    const claimed = messages.some(message => message.tool_calls?.some(call => call.function.name === 'task'))
    if (last?.role === 'tool' && /<task id="/.test(text) && !claimed)
      return { calls: [{ name: 'task', args: { action: 'complete', summary: 'made it' } }] }
    return 'Done.'
  })
  const model = { provider: 'scripted', baseURL: server.baseURL, name: 'm' }
  const it = gitTeam(
    {
      lead: 'boss',
      teammates: [{ name: 'boss', autoClaim: false, model }, { name: 'ann' }],
      approvals: { merge_request: 'lead' },
    },
    project(),
  )
  await it.ok('up', '-d')
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One'))
  await it.shown('1', 'unverified')
  expect((await it.requests())[0]).toMatchObject({
    to: 'boss',
    decidedBy: 'boss',
    reason: 'read it',
    effect: { outcome: 'ok' },
  })
  it.drop('own.json', JSON.stringify({ title: 'Own', assignee: 'boss' }))
  const own = await it.merge('2')
  expect(own).toMatchObject({ to: 'human', data: { owner: 'boss' } })
  await it.ok('approve', own.id)
  await it.shown('2', 'unverified')
})

test('E09 two approved at once on the same lines: the second is sent back with the facts, goes on from a branch that holds the trunk, and is merged', async () => {
  const it = gitTeam(
    { teammates: [{ name: 'ann' }, { name: 'ben' }] },
    project({ 'gone.txt': 'x\n', 'pic.bin': '\0\u0001' }),
  )
  await it.ok('up', '-d')
  const change = (who: string) => `~~~sh
node -e "require('fs').writeFileSync('pic.bin', Buffer.from([0, 255, ${who.length}, ${who.charCodeAt(0)}]))"
~~~
${runbook.steps({ 'a.txt': `one\n${who}\nthree\n` }, who)}
## If sent back
~~~sh
node -e "if (!require('fs').existsSync('.git/MERGE_HEAD')) process.exit(1)"
git rm -q -f gone.txt
~~~
${runbook.steps({ 'a.txt': 'one\nboth\nthree\n' }, 'Settled')}`
  it.drop('ann.md', `---\ntitle: A\nassignee: ann\n---\n~~~sh\ngit rm -q gone.txt\n~~~\n${change('ann')}`)
  it.drop(
    'ben.md',
    `---\ntitle: B\nassignee: ben\n---\n${runbook.steps({ 'gone.txt': 'edited\n' }, 'edit')}${change('ben')}`,
  )
  const { tasks } = await until(async () => {
    const status = await it.status()
    return status.requests.length === 2 && status
  })
  expect(tasks.map(task => task.shown)).toEqual(['claimed', 'claimed'])
  const before = fingerprint(it.repo)
  await it.ok('approve', 'req_1', 'req_2')
  // Sent back, settled and claimed anew.
  const waiting = await until(async () => (await it.requests()).find(({ outcome }) => outcome === null))
  const loser = (await it.status()).tasks.find(task => task.shown === 'claimed')
  const [first, second] = loser?.id === '1' ? (['2', '1'] as const) : (['1', '2'] as const)
  const returned = it.events().find(({ event }) => event === 'task.returned')
  expect(returned?.info?.task).toBe(second)
  const told = readFileSync(join(it.root, 'team', loser?.owner ?? '', 'TASK.md'), 'utf8')
  expect(told).toContain(`- task ${first} "${first === '1' ? 'A", by ann' : 'B", by ben'} (`)
  expect(told).toMatch(/<<<<<<< the trunk\n(ann|ben)\n=======\n(ann|ben)\n>>>>>>> your branch/)
  expect(told).toMatch(
    /## Your clone\n\n- The trunk was merged into this branch and left conflicts .*a\.txt, gone\.txt, pic\.bin/,
  )
  const effect = (await it.requests()).find(request => request.effect?.outcome === 'returned')?.effect
  expect(effect?.detail?.replace('conflict in ', '').split(', ').sort()).toEqual(['a.txt', 'gone.txt', 'pic.bin'])
  await it.ok('approve', waiting.id)
  expect(await it.shown(second, 'unverified')).toMatchObject({ returns: 1, takeIn: null })
  expect(fingerprint(it.repo)).toEqual(before)
  const trunk = hubGit(it)
  expect(trunk('show', 'team/trunk:a.txt')).toBe('one\nboth\nthree')
  expect(trunk('log', '--first-parent', '--format=%s', '--merges', 'team/trunk')).toMatch(
    /^Merge task \d: [AB]\nMerge task \d: [AB]$/,
  )
  expect(existsSync(join(it.root, '.team', 'hub.git', 'MERGE_HEAD'))).toBe(false)
})

test('the trunk moves while an approved merge is verified: it is verified again on the newer one, without a new approval', async () => {
  // Waits, where the merged tree says so, until the test has seen it wait.
  const check = `const fs = require('fs')
const waiting = fs.existsSync('wait.txt')
if (waiting) { const t = setInterval(() => { if (fs.existsSync('.git/go')) clearInterval(t) }, 20) }
`
  const it = gitTeam(
    { teammates: [{ name: 'ann' }, { name: 'ben' }], verify: 'node check.cjs' },
    project({ 'check.cjs': check }),
  )
  await it.ok('up', '-d')
  it.drop('one.md', runbook('One', { 'wait.txt': '1\n' }, 'One'))
  const { id } = await it.merge('1')
  await it.ok('approve', id)
  const verify = join(it.root, '.team', 'verify')
  const checkout = () =>
    (existsSync(verify) ? readdirSync(verify) : []).find(name => existsSync(join(verify, name, 'wait.txt')))
  const first = await until(checkout)
  await until(() => existsSync(join(verify, first, '.git')))
  const hand = it.repo.commit('By hand', { 'hand.txt': 'hand\n' })
  it.drop('two.md', `---\ntitle: Two\n---\n${runbook.gate}`)
  await until(async () => (await it.status()).trunk?.commit === hand)
  writeFileSync(join(verify, first, '.git', 'go'), '')
  const second = await until(() => {
    const name = checkout()
    return name !== first && name
  })
  expect(existsSync(join(verify, second, 'hand.txt'))).toBe(true)
  writeFileSync(join(verify, second, '.git', 'go'), '')
  const done = await it.shown('1', 'completed')
  expect(done.result?.outcome).toBe('merged')
  const trunk = hubGit(it)
  expect(trunk('rev-parse', 'team/trunk^1')).toBe(hand)
  expect(
    (await it.requests()).filter(request => request.type === 'merge_request' && request.data.task === '1').length,
  ).toBe(1)
  expect(await it.ok('diff', '1')).not.toContain('hand.txt')
})

test('a task cancelled while its approved merge is verified is not merged', async () => {
  const check = `const fs = require('fs')
const t = setInterval(() => { if (fs.existsSync('.git/go')) clearInterval(t) }, 20)
`
  const it = gitTeam({ teammates: [{ name: 'ann' }], verify: 'node check.cjs' }, project({ 'check.cjs': check }))
  await it.ok('up', '-d')
  it.drop('one.md', runbook('One', { 'one.txt': '1\n' }, 'One'))
  await it.ok('approve', (await it.merge('1')).id)
  const verify = join(it.root, '.team', 'verify')
  const at = await until(() =>
    (existsSync(verify) ? readdirSync(verify) : []).find(name => existsSync(join(verify, name, 'one.txt'))),
  )
  await it.ok('task', 'cancel', '1')
  writeFileSync(join(verify, at, '.git', 'go'), '')
  const effect = await until(async () => (await it.requests())[0]?.effect?.outcome && (await it.requests())[0]?.effect)
  expect(effect).toMatchObject({ outcome: 'failed', detail: 'nothing was merged: task 1 is cancelled' })
  const { trunk, base } = await it.status()
  expect(trunk).toMatchObject({ commit: base?.commit, ahead: 0 })
})
