import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { teamOk, until } from '../support/cli.ts'
import { call, sinceTask } from '../support/daemon.ts'
import { ask, gate, heard, killed, quiet, type Script, scriptedTeam } from '../support/scripted-team.ts'

const put = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

/** As published for other tools: keys that are nothing to this one, a folded description, a name that its folder has not. */
const published = (body: string): string =>
  `\uFEFF---\r\nname: brand-guide\r\ndescription: >\r\n  Colours and words\r\n  of the brand.\r\nlicense: MIT\r\nallowed-tools: Bash Read\r\nmetadata:\r\n  version: "1.0"\r\n---\r\n# Brand\r\n${body}\r\n`

test('a skill folder as published for other tools works unchanged; its edit under a running task is told, and the prefix keeps its bytes', async () => {
  const halfway = gate()
  const edited = gate()
  let later = false
  const alice: Script = async request => {
    const at = sinceTask(request)
    if (!at) return 'Read.'
    const reads = ['SKILL.md', 'references/colours/deep.md'].map(file =>
      call('read_file', { path: `skills/brand/${file}` }),
    )
    const work = later
      ? [call('read_file', { path: 'skills/brand/SKILL.md' })]
      : [
          ...reads,
          call('ls', { path: 'skills/brand/assets' }),
          call('bash', { command: `sh ${join(root, 'team/alice/skills/brand/scripts/hello.sh')} world` }),
          call('read_file', { path: 'skills/mine/SKILL.md' }),
          call('ls', {}),
          call('read_file', { path: 'skills/fresh/SKILL.md' }),
          call('read_file', { path: 'skills/brand/SKILL.md' }),
        ]
    if (at.results.length === 5 && !later) {
      halfway.open()
      await edited.opened
    }
    return (
      work[at.results.length] ??
      (at.results.length === work.length ? call('task', { action: 'complete', summary: 'done' }) : 'Ended.')
    )
  }
  const crew = await scriptedTeam({ alice, bob: () => 'Read.' }, { permissions: { allow: ['sh *'] } })
  const { root } = crew
  const brand = join(root, 'team', 'skills', 'brand')
  put(join(brand, 'SKILL.md'), published('BODY-ONE'))
  put(join(brand, 'references', 'colours', 'deep.md'), 'DEEP-BLUE\n')
  put(join(brand, 'assets', 'logo.svg'), '<svg/>\n')
  put(join(brand, 'scripts', 'hello.sh'), '#!/bin/sh\necho "hello $1"\n')
  chmodSync(join(brand, 'scripts', 'hello.sh'), 0o755)
  put(
    join(root, 'team', 'alice', 'skills', 'mine', 'SKILL.md'),
    '---\nname: mine\ndescription: Only hers\n---\nBODY-MINE\n',
  )
  const first = await crew.up()
  await teamOk(['task', 'add', 'One', '--assignee', 'alice', '--root', root])
  await halfway.opened
  // In the middle of the task: a body and a description are edited, and a skill is added.
  put(join(brand, 'SKILL.md'), published('BODY-TWO').replace('Colours and words', 'Words and colours'))
  put(join(root, 'team', 'skills', 'fresh', 'SKILL.md'), '---\nname: fresh\ndescription: Just here\n---\nBODY-FRESH\n')
  edited.open()
  await until(async () => (await ask(root, 'task.get', { id: '1' })).task.status === 'completed')
  await quiet(root, 'alice')
  const requests = crew.requests('alice')
  const results = requests.map(request => sinceTask(request)?.results ?? []).find(all => all.length >= 9) ?? []
  const shown = results.map(({ text }) => text)
  expect(shown[0]).toContain('BODY-ONE')
  expect(shown[1]).toContain('DEEP-BLUE')
  expect(shown[2]).toContain('logo.svg')
  expect(shown[3]).toMatch(/^exit 0 .*\nhello world$/)
  expect(shown[4]).toContain('BODY-MINE')
  expect(shown[6]).toContain('BODY-FRESH')
  expect(shown[7]).toContain('BODY-TWO')
  const told = /Skills are not what they were \(changed: skills\/brand; new: skills\/fresh\)/g
  expect(heard(requests.at(-1)).match(told)).toHaveLength(1)
  const systems = requests.map(({ messages }) => messages[0]?.content ?? '')
  expect(new Set(systems).size).toBe(1)
  expect(systems[0]).toContain('- brand-guide (skills/brand): Colours and words of the brand.\n- mine: Only hers')
  expect(systems[0]).not.toContain('BODY')
  // What is one teammate's own is no other's.
  await ask(root, 'message.send', { to: 'bob', content: 'hello' })
  await quiet(root, 'bob')
  const bob = crew.requests('bob')[0]?.messages[0]?.content ?? ''
  expect(bob).toContain('brand-guide')
  expect(bob).not.toContain('Only hers')

  // At the next task the list is as it is now, and that is told too.
  later = true
  await teamOk(['task', 'add', 'Two', '--assignee', 'alice', '--root', root])
  await until(async () => (await ask(root, 'task.get', { id: '2' })).task.status === 'completed')
  await quiet(root, 'alice')
  const last = crew.requests('alice').at(-1)
  expect(last?.messages[0]?.content).toContain(
    '- brand-guide (skills/brand): Words and colours of the brand.\n- fresh: Just here',
  )
  expect(heard(last)).toContain('Your rules, team or skills changed')
  expect(heard(last).match(told)).toHaveLength(1)

  // A body that changes while nobody runs is told when she goes on.
  await killed(first)
  put(join(brand, 'SKILL.md'), published('BODY-THREE').replace('Colours and words', 'Words and colours'))
  await crew.up()
  await ask(root, 'message.send', { to: 'alice', content: 'are you there?' })
  await until(() => heard(crew.requests('alice').at(-1)).includes('are you there?'))
  await quiet(root, 'alice')
  expect(heard(crew.requests('alice').at(-1))).toMatch(/\(changed: skills\/brand\)/)
  expect(readFileSync(join(root, '.team', 'sessions', 'alice.jsonl'), 'utf8')).not.toContain('BODY-THREE')
})
