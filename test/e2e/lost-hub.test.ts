import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { statusOf, team, teamOk, until } from '../support/cli.ts'
import { call, gitTeamOf, model, sinceTask } from '../support/daemon.ts'
import { inboxOf } from '../support/scripted-team.ts'

/** Writes, commits and claims each task. */
const steady = () =>
  model(request => {
    const since = sinceTask(request)
    const results = since?.results ?? []
    if (results.length === 0) return call('write_file', { path: `repo/${since?.id}.txt`, content: 'written\n' })
    if (results.length === 1) return call('bash', { command: 'git add -A && git commit -qm written' })
    return results.length === 2 ? call('task', { action: 'complete', summary: 'written' }) : 'Over.'
  })
const alone = { teammates: [{ name: 'alice' }], permissions: { allow: ['git *'] } }

const taskOf = async (root: string, id: string) => (await statusOf(root)).tasks.find(task => task.id === id)
const add = (root: string, title: string) => teamOk(['task', 'add', title, '--root', root])
const asked = (root: string) => until(async () => (await statusOf(root)).requests[0]?.id, 40_000)
const merged = async (root: string, id: string) => {
  await teamOk(['approve', await asked(root), '--root', root])
  await until(async () => (await taskOf(root, id))?.status === 'completed', 40_000)
}
const again = async (root: string) => {
  await teamOk(['down', '--root', root])
  await teamOk(['up', '-d', '--root', root])
}

test('a hub removed under a running team is named with its remedy, no task fails for it, and in a new one the work goes on', async () => {
  const { root, repo } = gitTeamOf(await steady(), alone)
  await teamOk(['up', '-d', '--root', root])
  await add(root, 'Claimed')
  await asked(root)
  rmSync(join(root, '.team', 'hub.git'), { recursive: true })
  await add(root, 'Waits')
  const gone = await team(['status', '--root', root])
  expect(gone.code).toBe(0)
  expect(gone.stdout).toMatch(/hub\.git is gone.*team down and team up make a new one/s)
  await teamOk(['approve', '1', '--root', root])
  expect(await team(['land', '--root', root])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/hub\.git is gone\n.*team down and team up/),
  })
  expect([(await taskOf(root, '1'))?.status, (await taskOf(root, '2'))?.status]).toEqual(['in_progress', 'pending'])
  await again(root)
  await until(async () => (await taskOf(root, '1'))?.status === 'completed', 40_000)
  await merged(root, '2')
  await teamOk(['land', '--root', root])
  expect(['1', '2'].every(id => existsSync(join(repo.dir, `${id}.txt`)))).toBe(true)
  await teamOk(['down', '--root', root])
})

test('what was merged and not landed goes with its hub: that is told, the clone that borrowed it is set aside, and new work is done', async () => {
  const { root, repo } = gitTeamOf(await steady(), alone)
  await teamOk(['up', '-d', '--root', root])
  for (const id of ['1', '2']) {
    await add(root, `Task ${id}`)
    await merged(root, id)
    if (id === '1') await teamOk(['land', '--root', root])
  }
  await add(root, 'On top of it')
  await asked(root)
  rmSync(join(root, '.team', 'hub.git'), { recursive: true })
  await again(root)
  const lost =
    /hub\.git was made anew.* the work on task 2 \(team\/task-2 in team\/alice\/repo\) is left in the clone alone, .* or in a repo\.damaged-<n> beside it/
  const told = (await inboxOf(root, 'user')).items.map(({ stored }) => stored.message.content)
  expect(told.filter(text => lost.test(text))).toHaveLength(1)
  expect(told.filter(text => /clone of alice .*is damaged.*repo\.damaged-1/.test(text))).toHaveLength(1)
  expect((await statusOf(root)).problems.join()).toMatch(lost)
  await teamOk(['reject', await asked(root), '--reason', 'it stands on what is lost', '--root', root])
  await add(root, 'Anew')
  await until(async () => (await statusOf(root)).requests.some(({ title }) => title.includes('Anew')), 40_000)
  await teamOk(['down', '--root', root])
  expect(existsSync(join(repo.dir, '1.txt'))).toBe(true)
})

test('the log of a daemon whose folder was removed is written again', async () => {
  const { root } = gitTeamOf(await steady(), alone)
  const log = join(root, '.team', 'logs')
  await teamOk(['up', '-d', '--root', root])
  await until(async () => (await statusOf(root)).teammates[0]?.state === 'idle')
  rmSync(log, { recursive: true })
  await teamOk(['task', 'add', 'Write', '--root', root])
  await until(async () => (await statusOf(root)).requests.length >= 1)
  expect(readFileSync(join(log, 'daemon.jsonl'), 'utf8')).toContain('"event":"task.created"')
  await teamOk(['down', '--root', root])
})
