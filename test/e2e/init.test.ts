import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/store/root.ts'
import { team, teamOk, tempFolder, willRun } from '../support/cli.ts'
import { repoAt } from '../support/repo.ts'

/** A repository with one commit, in a folder whose name needs care. */
const repository = () => {
  const dir = join(tempFolder(), "My Projekt é's (1)")
  mkdirSync(dir)
  const repo = repoAt(dir)
  repo.git('init', '-q', '-b', 'main')
  repo.commit('first', { 'package.json': '{"scripts":{"test":"node --test"}}', 'src/a.js': '' })
  return repo
}

test('init in a repository makes a root beside it, found from every folder of the repository', async () => {
  const repo = repository()
  const root = `${repo.dir}-team`
  await teamOk(['init', '--yes', '--teammates', 'ann,ben'], { cwd: join(repo.dir, 'src') })
  const loaded = loadConfig(root)
  if (!loaded.ok) throw new Error(loaded.fault.message)
  expect(loaded.value.workspace).toBe(repo.dir)
  expect(loaded.value.mode).toBe('git')
  expect(loaded.value.members.map(member => member.name)).toEqual(['ann', 'ben'])
  expect(loaded.value.config.verify).toBe('npm test')
  expect(['required', 'prefer']).toContain(loaded.value.config.sandbox)
  expect(repo.git('status', '--porcelain')).toBe('')
  expect(repo.git('config', '--local', 'team.root')).toBe(root)
  willRun(root)
  await teamOk(['task', 'add', 'One'], { cwd: join(repo.dir, 'src') })
  expect(existsSync(join(root, '.tasks', 'task_1.json'))).toBe(true)
})

test('init overwrites nothing: a second one is refused, and what a person wrote stays', async () => {
  const repo = repository()
  await teamOk(['init', '--yes'], { cwd: repo.dir })
  const config = readFileSync(join(`${repo.dir}-team`, 'config.json'), 'utf8')
  const again = await team(['init', '--yes'], { cwd: repo.dir })
  expect([again.code, again.stderr]).toEqual([5, expect.stringContaining('has a team root already')])
  expect(readFileSync(join(`${repo.dir}-team`, 'config.json'), 'utf8')).toBe(config)

  const plain = join(tempFolder(), 'plain')
  mkdirSync(join(plain, 'team'), { recursive: true })
  writeFileSync(join(plain, 'team', 'AGENTS.md'), 'mine')
  await teamOk(['init', plain, '--yes'])
  expect(readFileSync(join(plain, 'team', 'AGENTS.md'), 'utf8')).toBe('mine')
  expect((await team(['init', plain, '--yes'])).code).toBe(5)
})

test('a root that lies in a repository leaves git status clean while the team runs on it', async () => {
  const repo = repository()
  const root = join(repo.dir, 'tools', 'team root')
  mkdirSync(join(root, 'team', 'skills'), { recursive: true })
  repo.commit('root', {
    'tools/team root/config.json': '{"mode":"dir","sandbox":"off","teammates":[{"name":"ann"}]}',
    'tools/team root/.tasks/README.md': 'tasks',
    'tools/team root/team/AGENTS.md': 'rules',
  })
  willRun(root)
  await teamOk(['up', '-d', '--root', root])
  await teamOk(['task', 'add', 'One', '--root', root])
  await teamOk(['send', 'ann', 'hi', '--root', root])
  await teamOk(['down', '--force', '--root', root])
  expect(repo.git('status', '--porcelain')).toBe('')
})

test.each([
  ['Ann', 'does not do'],
  ['user', 'is reserved'],
  ['lead', 'is reserved'],
  ['ann,ann', 'given twice'],
  [',', 'at least one'],
])('init refuses the names %j and makes nothing', async (names, message) => {
  const dir = join(tempFolder(), 'plain')
  const ran = await team(['init', dir, '--yes', '--teammates', names])
  expect([ran.code, ran.stderr]).toEqual([2, expect.stringContaining(message)])
  expect(existsSync(dir)).toBe(false)
})

test('init in a folder whose parent does not exist is refused, names it, and makes nothing', async () => {
  const at = tempFolder()
  const ran = await team(['init', '--yes', join(at, 'wrong', 'path', 'here')])
  expect([ran.code, ran.stderr]).toEqual([2, expect.stringContaining(`no folder ${join(at, 'wrong', 'path')}`)])
  expect(existsSync(join(at, 'wrong'))).toBe(false)
  await teamOk(['init', '--yes', join(at, 'new')])
  const inFile = await team(['init', '--yes', join(at, 'new', 'config.json')])
  expect([inFile.code, inFile.stderr]).toEqual([2, expect.stringContaining('is a file')])
})

test('init says at once what team up will refuse in the repository, and takes a git folder for no bare repository', async () => {
  const repo = repository()
  const inside = await team(['init', '--yes'], { cwd: join(repo.dir, '.git', 'refs') })
  expect([inside.code, inside.stderr]).toEqual([5, expect.stringContaining('.git is the git folder of a repository')])
  expect(existsSync(join(repo.dir, '.git-team'))).toBe(false)
  repo.git('checkout', '-q', '--detach')
  const said = await teamOk(['init', '--yes'], { cwd: repo.dir })
  expect(said).toContain('next: team up refuses this repository as it is')
  expect(said).toContain('HEAD is detached')
  willRun(`${repo.dir}-team`)
  for (const how of ['--once', '-d']) {
    const up = await team(['up', how, '--root', `${repo.dir}-team`])
    expect([up.code, up.stderr]).toEqual([3, expect.stringContaining('HEAD is detached')])
  }
  // Nothing was left of that but what init had made.
  expect(readdirSync(`${repo.dir}-team`).sort()).toEqual(['.messages', '.tasks', 'config.json', 'team'])
})
