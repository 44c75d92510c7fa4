import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { bindGit, firstLine, git, gitBytes, zParts } from '../../src/git/run.ts'
import { globToRegExp } from '../../src/lib/glob.ts'
import { unwrap } from '../../src/lib/result.ts'
import { bundle } from '../support/bundle.ts'
import { initRepo, tempFolder } from '../support/repo.ts'

let folder: ReturnType<typeof tempFolder>
beforeEach(() => {
  folder = tempFolder()
})
afterEach(() => folder.remove())

test('an exit code that is an answer is a value, any other is a fault with git’s own words', async () => {
  const { dir } = initRepo(join(folder.dir, 'r'))
  expect(unwrap(await git(['rev-parse', '-q', '--verify', 'nope'], { cwd: dir, codes: [0, 1] })).code).toBe(1)
  const fault = await git(['log', 'nope', '--'], { cwd: dir })
  expect(fault).toMatchObject({
    ok: false,
    fault: { code: 'io', message: "git log failed (128): bad revision 'nope'" },
  })
})

test('no git in PATH and a folder that is not there are told apart', async () => {
  const { dir } = initRepo(join(folder.dir, 'r'))
  expect(await git(['version'], { cwd: dir, env: { PATH: folder.dir } })).toMatchObject({
    ok: false,
    fault: { code: 'config' },
  })
  expect(await git(['version'], { cwd: join(folder.dir, 'gone') })).toMatchObject({ ok: false, fault: { code: 'io' } })
})

test('J05 with no file handle left, or a few, git and commands say so, and the process lives on', () => {
  const child = bundle(new URL('../support/no-handles.ts', import.meta.url))
  const ran = spawnSync('sh', ['-c', 'ulimit -n 60; exec "$0" "$@"', process.execPath, child], { encoding: 'utf8' })
  expect([ran.status, ran.stderr]).toEqual([0, ''])
  const told: Record<string, string[]> = JSON.parse(ran.stdout)
  expect(Object.keys(told)).toEqual(['git', 'command', 'held'])
  for (const all of Object.values(told)) {
    for (const said of all) expect(said).toMatch(/^0$|EMFILE/)
    expect([all[0], all.at(-1)]).toEqual([expect.stringContaining('EMFILE'), '0'])
  }
})

test('a run that is aborted or takes too long is ended, with what it started', async () => {
  const { dir } = initRepo(join(folder.dir, 'r'))
  const slow = ['-c', 'alias.slow=!sleep 300 & sleep 300', 'slow']
  expect(await git(slow, { cwd: dir, timeoutMs: 100 })).toMatchObject({ ok: false, fault: { code: 'io' } })
  const stop = new AbortController()
  const running = bindGit({ cwd: dir, signal: stop.signal })(slow)
  stop.abort()
  expect(await running).toMatchObject({ ok: false, fault: { code: 'closed' } })
  expect(await git(['version'], { cwd: dir, signal: stop.signal })).toMatchObject({
    ok: false,
    fault: { code: 'closed' },
  })
})

test('bytes come through as they are, output past the limit is cut and said so, input goes in', async () => {
  const { dir } = initRepo(join(folder.dir, 'r'), { f: Buffer.from([255, 0, 10, 254]) })
  expect([...unwrap(await gitBytes(['cat-file', 'blob', 'HEAD:f'], { cwd: dir })).stdout]).toEqual([255, 0, 10, 254])
  expect(unwrap(await git(['log', '--format=%B%H%T%an%ae%cn'], { cwd: dir, maxBytes: 10 })).truncated).toBe(true)
  const id = unwrap(await git(['hash-object', '--stdin'], { cwd: dir, input: 'hello\n' })).stdout
  expect(id).toBe('ce013625030ba8dba906f756967f9e9ca394464a\n')
})

test('the person’s own configuration is read only when asked for', async () => {
  const repo = initRepo(join(folder.dir, 'r'))
  const env = { PATH: process.env.PATH, HOME: folder.dir }
  unwrap(await git(['config', '--global', 'team.probe', 'yes'], { cwd: repo.dir, env, as: 'user' }))
  expect(unwrap(await git(['config', 'team.probe'], { cwd: repo.dir, env, as: 'user' })).stdout).toBe('yes\n')
  expect(unwrap(await git(['config', 'team.probe'], { cwd: repo.dir, env, codes: [0, 1] })).code).toBe(1)
})

test('outputs are read: the telling line of many, the parts of -z', () => {
  expect(firstLine('hint: x\nfatal: it broke\nmore')).toBe('it broke')
  expect(firstLine('')).toBe('it said nothing')
  expect(zParts('a\0b c\0')).toEqual(['a', 'b c'])
  expect(zParts('')).toEqual([])
})

test('globs: names, folders, choices, and text that is no glob', () => {
  const yes = (glob: string, path: string) =>
    expect([glob, path, globToRegExp(glob).test(path)]).toEqual([glob, path, true])
  const no = (glob: string, path: string) =>
    expect([glob, path, globToRegExp(glob).test(path)]).toEqual([glob, path, false])
  yes('*.env', '.env')
  yes('**/*.json', 'a.json')
  yes('**/*.json', 'x/y/a.json')
  yes('conf/**', 'conf/x/y')
  yes('.env{,.local}', '.env')
  yes('.env{,.local}', '.env.local')
  yes('[!a]?', 'b日')
  yes('a(b)+.txt', 'a(b)+.txt')
  yes('{a,b}/*', 'b/c')
  no('*.env', 'x/.env')
  no('a?c', 'a/c')
  no('[!a]x', 'ax')
  no('*.json', 'a.jsonc')
})
