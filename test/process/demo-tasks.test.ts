import { spawnSync } from 'node:child_process'
import { appendFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { verifyCommand } from '../../src/cli/demo/files.ts'
import { makeDemo } from '../../src/cli/demo/repo.ts'
import { type DemoTask, demoTasks, dropText } from '../../src/cli/demo/tasks.ts'
import { ChatRequest, readConversation } from '../../src/model/runbook/conversation.ts'
import { reply } from '../../src/model/runbook/reply.ts'
import { parseDrops } from '../../src/protocol/drop.ts'

// The demo's runbooks carried out on a real repository by plain git: no daemon, no sandbox, merges by hand.

let dir: string
let hub: string
let trunk = ''
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'demo-tasks-'))
  const made = await makeDemo(dir, process.env)
  if (!made.ok) throw new Error(made.fault.message)
  hub = join(dir, 'hub.git')
  git(dir, 'clone', '-q', '--bare', made.value.workspace, hub)
  git(hub, 'branch', 'trunk', 'main')
  trunk = git(hub, 'rev-parse', 'trunk').out
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const environment = {
  PATH: process.env.PATH,
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
  GIT_AUTHOR_NAME: 'a',
  GIT_AUTHOR_EMAIL: 'a@team.invalid',
  GIT_COMMITTER_NAME: 'a',
  GIT_COMMITTER_EMAIL: 'a@team.invalid',
}
const run = (cwd: string, file: string, args: readonly string[]) => {
  const { status, stdout, stderr } = spawnSync(file, args, { cwd, env: environment, encoding: 'utf8' })
  return { status, out: stdout.trim(), all: stdout + stderr }
}
const git = (cwd: string, ...args: string[]) => {
  const done = run(cwd, 'git', args)
  if (done.status !== 0) throw new Error(`git ${args.join(' ')}: ${done.all}`)
  return done
}

const task = (key: string): DemoTask => {
  const found = demoTasks.find(each => each.key === key)
  if (!found) throw new Error(`no task ${key}`)
  return found
}
const clone = (key: string): string => join(dir, key)

/** The task's clone, its branch at the trunk as it is now. */
const claim = (key: string): void => {
  git(dir, 'clone', '-q', '-o', 'hub', '-b', 'trunk', hub, clone(key))
  git(clone(key), 'checkout', '-q', '-b', `task-${key}`)
}

const tools: Record<string, (cwd: string, args: Record<string, string>) => string> = {
  bash: (cwd, { command = '' }) => {
    const done = run(cwd, 'sh', ['-c', command])
    return `exit ${done.status}\n${done.all}`
  },
  write_file: (cwd, { path = '', content = '' }) => {
    if (path === 'NOTES.md') appendFileSync(join(dir, 'NOTES.md'), content)
    const file = join(cwd, path.replace(/^repo\//, ''))
    if (path === 'NOTES.md') return 'appended'
    if (!existsSync(dirname(file))) return 'error: the folder does not exist'
    writeFileSync(file, content)
    return 'wrote'
  },
  message: () => 'sent',
  ask_user: () => 'opened req_1, which is approved already',
  request: () => 'opened req_1, which is approved already',
  task: (cwd, { action }) => {
    const left = git(cwd, 'status', '--porcelain').out
    return action === 'complete' && left !== '' ? `error: uncommitted: ${left}` : 'ok'
  },
}

/** The runbook carried out to its end; the summary when it was claimed done. Throws with the reason when it failed. */
const carryOut = (key: string, returned?: string, cwd = clone(key)): string => {
  const { title, text } = task(key)
  const facts = returned === undefined ? '' : `<returned>${returned}</returned>\n`
  const messages: unknown[] = [
    { role: 'user', content: `<task id="1" attempt="1">\n${facts}# ${title}\n\n${text}\n</task>` },
  ]
  const offered = Object.keys(tools).map(name => ({ type: 'function', function: { name } }))
  let summary = ''
  for (let round = 0; round < 30; round++) {
    const said = reply(readConversation(ChatRequest.parse({ messages, tools: offered })))
    if ('text' in said) return summary
    const { id, name, args } = said.call
    if (args.action === 'fail') throw new Error(`${key}: ${String(args.summary)}`)
    if (args.action === 'complete') summary = String(args.summary)
    const content = tools[name]?.(cwd, args as Record<string, string>) ?? 'error: no such tool'
    messages.push(
      { role: 'assistant', content: null, tool_calls: [{ id, function: { name, arguments: JSON.stringify(args) } }] },
      { role: 'tool', tool_call_id: id, content },
    )
  }
  throw new Error(`${key}: no end`)
}

/** What a merge of the task's branch would come to, without moving anything. */
const preview = (key: string) => {
  git(hub, 'fetch', '-q', clone(key), `+task-${key}:task-${key}`)
  const merged = run(hub, 'git', ['merge-tree', '--write-tree', '--name-only', 'trunk', `task-${key}`])
  const tree = merged.out.split('\n')[0] ?? ''
  if (merged.status !== 0)
    return { clean: false, files: merged.out.split('\n\n')[0]?.split('\n').slice(1), verify: null }
  const at = mkdtempSync(join(dir, 'verify-'))
  mkdirSync(join(at, 'x'))
  run(at, 'sh', ['-c', `git --git-dir='${hub}' archive ${tree} | tar x`])
  return { clean: true, files: [], verify: run(at, 'sh', ['-c', verifyCommand]), tree }
}

const merge = (key: string): void => {
  const { clean, verify, tree = '' } = preview(key)
  expect(clean, `${key} merges cleanly`).toBe(true)
  expect(verify?.status, `${key} verifies: ${verify?.all}`).toBe(0)
  const commit = git(hub, 'commit-tree', tree, '-p', 'trunk', '-p', `task-${key}`, '-m', key).out
  git(hub, 'update-ref', 'refs/heads/trunk', commit, trunk)
  trunk = commit
}

const returnedFor = (key: string, facts: string): string => {
  git(clone(key), 'fetch', '-q', 'hub')
  return carryOut(key, facts)
}

describe('the tasks of the demo', () => {
  it('are eight drops of four teammates that the tasks folder accepts, with a fan-out and a fan-in', () => {
    expect(demoTasks).toHaveLength(8)
    expect(new Set(demoTasks.map(each => each.assignee)).size).toBe(4)
    for (const each of demoTasks) {
      const read = parseDrops(`${each.key}.md`, Buffer.from(dropText(each)))
      expect(read).toMatchObject({
        ok: true,
        drops: [{ title: each.title, assignee: each.assignee, blockedBy: each.after.map(key => `${key}.md`) }],
      })
    }
    expect(demoTasks.filter(each => each.after.join() === 'quoted-cells')).toHaveLength(4)
    expect(task('report').after).toHaveLength(3)
  })

  it('come to a trunk that passes its tests, over one true conflict and one true red check on a clean merge', () => {
    claim('quoted-cells')
    expect(carryOut('quoted-cells')).toMatch(/`node --test --test-reporter=tap` exit 0, printed what was expected/)
    merge('quoted-cells')

    for (const key of ['totals', 'table', 'strict-numbers', 'spread']) claim(key)
    for (const key of ['totals', 'table', 'strict-numbers', 'spread']) carryOut(key)
    merge('totals')
    expect(preview('table')).toMatchObject({ clean: false, files: ['src/index.js'] })
    // Also where the trunk was merged in already, and the conflict lies in the clone.
    const begun = clone('table-begun')
    cpSync(clone('table'), begun, { recursive: true })
    git(begun, 'fetch', '-q', 'hub')
    expect(run(begun, 'git', ['merge', 'hub/trunk']).status).toBe(1)
    carryOut('table', 'conflict in src/index.js', begun)
    expect(git(begun, 'status', '--porcelain').out).toBe('')
    expect(returnedFor('table', 'conflict in src/index.js')).toContain('`git merge hub/trunk` exit 1')
    merge('table')

    merge('strict-numbers')
    const red = preview('spread')
    expect(red.clean).toBe(true)
    expect(red.verify?.status).toBe(1)
    expect(red.verify?.all).toContain('not a number: "n/a"')
    expect(returnedFor('spread', 'verify failed')).toContain('`git merge hub/trunk` exit 0')
    merge('spread')

    for (const key of ['report', 'command', 'how-to-use']) {
      claim(key)
      carryOut(key)
      merge(key)
    }
    const { verify } = preview('how-to-use')
    expect(verify?.all).toMatch(/^# pass 15$/m)
    expect(verify?.all).toMatch(/^# fail 0$/m)
  })
})
