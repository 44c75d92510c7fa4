import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openHub } from '../../src/git/hub.ts'
import { unwrap } from '../../src/lib/result.ts'
import { makeShell } from '../../src/sandbox/make-shell.ts'
import type { Shell } from '../../src/sandbox/shell.ts'
import { makeView } from '../../src/sandbox/view.ts'
import { takeBranch } from '../../src/teammate/branch.ts'
import { folder } from '../support/agent.ts'
import { task } from '../support/holder.ts'

let home: ReturnType<typeof folder>
beforeEach(() => {
  home = folder()
})
afterEach(() => home.remove())

test('the clone is put on the branch of the task from the hub, and what lay there uncommitted is saved and told', async () => {
  const workspace = join(home.path, 'work')
  const root = join(home.path, 'root')
  const git = (cwd: string, ...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t.invalid', ...args], {
      cwd,
      encoding: 'utf8',
    }).trim()
  mkdirSync(workspace)
  mkdirSync(join(root, 'team', 'alice'), { recursive: true })
  mkdirSync(join(root, '.team'))
  git(workspace, 'init', '-q', '-b', 'main')
  writeFileSync(join(workspace, 'a.txt'), 'a\n')
  git(workspace, 'add', '.')
  git(workspace, 'commit', '-q', '-m', 'first')
  const hub = unwrap(await openHub({ workspace, hubDir: join(root, '.team', 'hub.git'), trunk: 'team/trunk' }))
  const clone = join(root, 'team', 'alice', 'repo')
  unwrap(await hub.ensureClone('alice', clone))
  const view = makeView({
    name: 'alice',
    root,
    workspace,
    mode: 'git',
    dataPaths: [],
    hub: join(root, '.team', 'hub.git'),
  })
  const shell = makeShell({
    view,
    probe: { kind: 'none', detail: 'test', remedy: null },
    mode: 'off',
    permissions: { allow: [], ask: [], deny: [] },
    marker: `${root}#alice`,
  })
  const signal = new AbortController().signal
  const heard: string[] = []
  const place = {
    root,
    home: join(root, 'team', 'alice'),
    onRescued: (refs: readonly string[]) => heard.push(...refs),
    free: async () => false,
  }
  const start = await hub.trunk()
  expect(await takeBranch(shell, place, task('7', { branch: 'team/task-7', start }), signal)).toEqual({
    ok: true,
    value: [],
  })
  expect(git(clone, 'symbolic-ref', '--short', 'HEAD')).toBe('team/task-7')
  expect(git(clone, 'rev-parse', 'refs/remotes/hub/trunk')).toBe(start)
  writeFileSync(join(clone, 'half.txt'), 'half\n')
  const kept = unwrap(await takeBranch(shell, place, task('7', { branch: 'team/task-7', start }), signal))
  expect(kept.join()).toMatch(/still holds uncommitted work/)
  expect(readFileSync(join(root, 'team', 'alice', 'TASK.md'), 'utf8')).toContain(`## Your clone\n\n- ${kept[0]}\n`)
  expect(readFileSync(join(clone, 'half.txt'), 'utf8')).toBe('half\n')
  const told = unwrap(await takeBranch(shell, place, task('8', { branch: 'team/task-8', start }), signal))
  expect(told.join()).toMatch(/was saved to refs\/team\/rescue\//)
  expect(heard).toEqual([expect.stringMatching(/^refs\/team\/rescue\/team\/task-7-/)])
  expect(git(clone, 'status', '--porcelain')).toBe('')
  // Killed by another, as by the kernel that is out of memory: it gave no answer, so it is asked again.
  let runs = 0
  const shot: Shell = {
    ...shell,
    run: options => shell.run(runs++ === 0 ? { ...options, command: 'kill -9 $$' } : options),
  }
  expect(await takeBranch(shot, place, task('9', { branch: 'team/task-9', start }), signal)).toMatchObject({ ok: true })
  expect([runs, git(clone, 'symbolic-ref', '--short', 'HEAD')]).toEqual([2, 'team/task-9'])
  const none = await takeBranch(shell, place, task('10', { branch: 'team/task-10', start: '0'.repeat(40) }), signal)
  expect(none).toMatchObject({ ok: false })
})
