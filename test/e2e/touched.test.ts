import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply } from '../../src/model/scripted.ts'
import { tempFolder, until } from '../support/cli.ts'
import { drive } from '../support/git-team.ts'
import { initRepo } from '../support/repo.ts'
import { heard, lastSaid, scriptedTeam, status } from '../support/scripted-team.ts'

const call = (name: string, args: object): Reply => ({ calls: [{ name, args }] })

test('what a command changed beside the paths of its task is told at once and refused as done; at the merge a lease of another sends it back', async () => {
  const repo = initRepo(join(tempFolder(), 'project'), { 'src/a.txt': 'one\n', 'b.txt': 'one\n' })
  const ann = [
    call('bash', { command: 'echo two >src/a.txt; echo two >b.txt; git commit -q -a -m Two' }),
    call('task', { action: 'complete', summary: 'two' }),
    call('bash', { command: 'git checkout -q hub/trunk -- b.txt && git commit -q -m Back' }),
    call('task', { action: 'complete', summary: 'two' }),
    'Done.',
  ]
  const it = await scriptedTeam(
    {
      ann: (_request, n) => ann[n] ?? 'Hm.',
      ben: request =>
        lastSaid(request).includes('take it') && request.messages.at(-1)?.role === 'user'
          ? call('request', { action: 'open', type: 'resource_request', data: { kind: 'path', what: ['src'] } })
          : 'Done.',
    },
    {
      workspace: repo.dir,
      sandbox: 'prefer',
      teammates: [{ name: 'ann' }, { name: 'ben', autoClaim: false }],
      permissions: { allow: ['echo *', 'git *'] },
    },
  )
  await it.up()
  const team = drive(it.root, repo)
  await team.ok('task', 'add', 'Two', '--path', 'src/**')
  const merge = await team.merge('1')
  const all = it.requests('ann').map(each => String(each.messages.at(-1)?.content))
  expect(all[1]).toMatch(
    /^exit 0 .*\nnote: repo\/ has changes that task 1 may not make: b\.txt \(task 1 is about src\/\*\*\)/,
  )
  expect(all[2]).toMatch(/task 1 is not completed: it changes what it may not:\n- b\.txt /)
  expect(all[3]).toMatch(/^exit 0 in [\d.]+ s, no output$/)
  await team.ok('send', 'ben', 'take it')
  await until(async () => (await status(it.root)).leases.held.length === 1, 60_000)
  await team.ok('approve', merge.id)
  const returned = await until(
    async () =>
      it
        .requests('ann')
        .map(heard)
        .find(text => text.includes('<returned>')),
    60_000,
  )
  expect(returned).toMatch(
    /<returned>your branch cannot be merged: it changes what it may not:\n- src\/a\.txt \(ben holds it until .*, fence 1\)/,
  )
  expect((await team.requests()).find(({ id }) => id === merge.id)?.effect).toMatchObject({
    outcome: 'returned',
    detail: 'it may not change src/a.txt',
  })
})
