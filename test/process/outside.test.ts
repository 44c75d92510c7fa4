import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ownScript } from '../../src/git/script.ts'
import { makeShell } from '../../src/sandbox/make-shell.ts'
import { probeSandbox } from '../../src/sandbox/probe.ts'
import type { Probe, SandboxMode } from '../../src/sandbox/shell.ts'
import { watchOutside } from '../../src/teammate/outside.ts'
import { fingerprint } from '../support/git-team.ts'
import { initRepo, type Repo } from '../support/repo.ts'
import { makePlace, type Place } from '../support/sandbox.ts'

let place: Place
let repo: Repo
const heard: { changes: readonly string[]; command: string }[] = []
beforeEach(() => {
  place = makePlace()
  repo = initRepo(place.workspace, { 'a.txt': 'a\n', 'b.txt': 'b\n', '.gitignore': 'ignored\n' })
  writeFileSync(join(place.root, 'team/AGENTS.md'), 'rules\n')
  mkdirSync(join(place.root, 'team/skills/csv'))
  writeFileSync(join(place.root, 'team/skills/csv/SKILL.md'), 'how\n')
  heard.length = 0
})
afterEach(() => place.remove())

const found = await probeSandbox()

const shellOf = (mode: SandboxMode, probe: Probe) => {
  const env = { PATH: process.env.PATH ?? '', HOME: place.top }
  const bare = makeShell({
    view: place.view('alice', { mode: 'git' }),
    probe,
    mode,
    permissions: { allow: [], ask: [], deny: [] },
    env,
    marker: `${place.root}#alice`,
  })
  const { root, workspace } = place
  const onChange = (changes: readonly string[], command: string) => void heard.push({ changes, command })
  const shell = watchOutside(bare, { root, workspace, mode: 'git', env, onChange })
  return async (command: string): Promise<string> => {
    const ran = await shell.run({
      command,
      timeoutMs: 20_000,
      trusted: true,
      outputBytes: 65_536,
      outputMaxBytes: 65_536,
    })
    await bare.stop(0)
    if ('refused' in ran) throw new Error(ran.reason)
    return ran.output
  }
}
const none: Probe = { kind: 'none', detail: 'test', remedy: null }

test('without a sandbox a change of the repository or of the rules is noticed, whatever made it, and told with the command', async () => {
  const run = shellOf('prefer', none)
  const w = place.workspace
  const hub = join(place.root, '.team/hub.git')
  repo.git('init', '-q', '--bare', '--template=', hub)
  repo.write({ 'b.txt': 'of the person\n' })
  expect(await run('echo fine; echo x > mine.txt; git init -q sub; touch ../out/y')).toBe('fine\n')
  expect(heard).toEqual([])
  for (const [command, ...changes] of [
    [`echo x > ${w}/new.txt`, `${w}/new.txt is new`],
    [`echo more >> ${w}/b.txt`, `${w}/b.txt changed`],
    [`git -C ${w} branch evil`, `refs/heads/evil of ${w} is new`],
    [`git -C ${w} switch -q evil`, `HEAD of ${w} changed`],
    [`git -C ${w} update-ref -d refs/heads/main`, `refs/heads/main of ${w} is gone`],
    [`git -C ${w} add new.txt`, `${w}/new.txt changed`],
    [`git -C ${w} restore b.txt`, `${w}/b.txt has nothing uncommitted any more`],
    [`echo more >> ${w}/b.txt`, `${w}/b.txt changed`],
    [`echo '* -diff' > ${w}/.git/info/attributes`, `${w}/.git/info/attributes is new`],
    [`echo '[core]' >> ${hub}/config`, `${hub}/config changed`],
    [`mkdir ${hub}/hooks`, `${hub}/hooks is new`],
    [`mkdir -p ${w}/.git/hooks; echo x > ${w}/.git/hooks/pre-commit`, `${w}/.git/hooks/pre-commit is new`],
    [`echo >> ${w}/.git/config`, `${w}/.git/config changed`],
    [`rm ${w}/a.txt`, `${w}/a.txt is gone`],
    [`echo x >> ${place.root}/config.json`, 'config.json changed'],
    [`echo x >> ${place.root}/team/AGENTS.md`, 'team/AGENTS.md changed'],
    [`rm ${place.root}/team/skills/csv/SKILL.md`, 'team/skills/csv/SKILL.md is gone'],
    [
      `echo x > ${place.root}/team/bob.md; mkdir ${place.root}/team/bob; echo x > ${place.root}/team/bob/AGENTS.md`,
      'team/bob/AGENTS.md is new',
    ],
  ] as const) {
    const output = await run(command)
    expect(heard.pop()).toEqual({ changes, command })
    expect(output).toContain(`[outside of your view something changed while this ran: ${changes.join('; ')}. Work in`)
  }
  // A hook may do it while the team's own git runs there, which no teammate asked for.
  await run(`${ownScript}\necho x > ${w}/by-hook.txt`)
  expect(heard.pop()?.command).toBe('git in the clone, as the team itself calls it, with the hooks there')
  // Many are counted, ignored ones are not looked at, and looking itself changes nothing.
  await run(`cd ${w}; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo x > f$i; done; echo x > ignored`)
  expect(heard.pop()?.changes.at(-1)).toBe('and 2 more')
  const before = fingerprint(repo)
  expect(await run('true')).toBe('')
  expect(fingerprint(repo)).toEqual(before)
})

test.skipIf(found.kind !== 'bwrap')(
  'in the sandbox neither the repository nor the rules can be written, and nothing is looked at',
  async () => {
    const run = shellOf('prefer', found)
    const before = fingerprint(repo)
    const w = place.workspace
    const output = await run(
      [
        `cd ${w} 2>&1; echo x > ${w}/a.txt; echo x >> ${place.root}/config.json; echo x >> ${place.root}/team/AGENTS.md`,
        `git -C ${w} branch evil; echo x >> ../AGENTS.md; rm -rf ${w} ${place.root}/team/skills; echo reached the end`,
      ].join('\n'),
    )
    expect(output).toContain('reached the end')
    expect(output).not.toContain('outside of your view')
    expect(heard).toEqual([])
    expect(fingerprint(repo)).toEqual(before)
    expect(readFileSync(join(w, 'a.txt'), 'utf8')).toBe('a\n')
    expect(readFileSync(join(place.root, 'team/AGENTS.md'), 'utf8')).toBe('rules\n')
    expect(existsSync(join(place.root, 'team/skills/csv/SKILL.md'))).toBe(true)
  },
)
