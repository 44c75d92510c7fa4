import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { shellWord } from '../../src/git/script.ts'
import { clock } from '../../src/lib/clock.ts'
import { unwrap } from '../../src/lib/result.ts'
import { Config, members } from '../../src/protocol/config.ts'
import { makeShell } from '../../src/sandbox/make-shell.ts'
import { probeSandbox } from '../../src/sandbox/probe.ts'
import type { View } from '../../src/sandbox/view.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { makeCore } from '../../src/supervisor/core.ts'
import { setUp } from '../../src/supervisor/setup.ts'
import { check, folderView } from '../../src/supervisor/verify.ts'

const probe = await probeSandbox()

test.skipIf(probe.kind === 'none')(
  'E13 what setup leaves in its caches the next one finds, of clones and of checks apart; no other command sees them',
  async () => {
    const top = realpathSync(mkdtempSync(join(tmpdir(), 'team-caches-')))
    onTestFinished(() => rmSync(top, { recursive: true, force: true }))
    const root = join(top, "r é's")
    mkdirSync(root)
    // What is there already, then one line more in each of the three.
    const setup = `for d in .npm .cache .cache/pip; do cat ~/$d/log >>seen 2>/dev/null; echo "$d of $(basename "$PWD")" >>~/$d/log || exit 1; done; ls -A ~ >home`
    const config = Config.parse({
      teammates: [{ name: 'ann' }],
      setup,
      caches: ['.npm', '~/.cache/pip', '.cache'],
    })
    const core = makeCore(
      {
        store: openMemoryStore(clock),
        root,
        workspace: root,
        mode: 'git',
        sandboxed: true,
        config,
        members: members(config),
        clock,
        hub: null,
      },
      () => null,
    )
    const { signal } = new AbortController()
    const shell = (view: View) =>
      makeShell({ view, probe, mode: 'required', permissions: config.permissions, env: {}, marker: 'caches' })
    const run = async (name: string, what: 'clones' | 'checks') => {
      const dir = join(top, name)
      mkdirSync(dir)
      unwrap(await setUp(core, dir, shell, signal, what))
      expect(readFileSync(join(dir, 'home'), 'utf8').trim().split('\n').sort()).toEqual(['.cache', '.npm'])
      return readFileSync(join(dir, 'seen'), 'utf8').split('\n').filter(Boolean)
    }
    const of = (name: string) => ['.npm', '.cache', '.cache/pip'].map(dir => `${dir} of ${name}`)
    expect(await run('one', 'clones')).toEqual([])
    expect(await run('two', 'clones')).toEqual(of('one'))
    expect(await run('three', 'checks')).toEqual([])
    expect(await run('four', 'checks')).toEqual(of('three'))

    const other = shell(await folderView('verify', join(top, 'one')))
    const limits = { seconds: 60, outputBytes: 4096, outputMaxBytes: 4096 }
    const looked = await check(other, ['test -z "$(ls -A ~)"', `test ! -e ${shellWord(root)}`], limits, signal)
    await other.stop(2000)
    expect(looked).toMatchObject({ ok: true })
  },
)

test('a cache is a folder below the home', () => {
  const parse = (caches: string[]) => Config.safeParse({ teammates: [{ name: 'ann' }], caches }).success
  expect(['.npm', '~/.npm', '.cache/pip', 'go/pkg/mod'].map(path => parse([path]))).toEqual([true, true, true, true])
  expect(['/root', '..', '.npm/../..', '~', '', './x', '~root/x', 'a//b', 'a/'].map(path => parse([path]))).toEqual(
    Array(9).fill(false),
  )
})
