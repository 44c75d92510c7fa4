import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { said, type ToolContext, type ToolResult } from '../../src/agent/tool.ts'
import { ok, unwrap } from '../../src/lib/result.ts'
import type { Call } from '../../src/protocol/rpc.ts'
import { makeShell } from '../../src/sandbox/make-shell.ts'
import { defaultTools } from '../../src/tools/index.ts'
import { noBackground } from '../support/agent.ts'
import { coreOf } from '../support/core.ts'
import { makePlace, type Place } from '../support/sandbox.ts'
import { toolContext, use } from '../support/tools.ts'

/**
 * What a tool may do unasked:
 * - `reads`: everything, whoever calls it; it changes nothing.
 * - `words`: everything; what it changes is the team's records, by the holder, or its own conversation.
 * - `writes`: inside the view; in `repo/` not before a plan where one is needed.
 * - `commands`: what the rules allow; the rest is asked for, what they deny is refused, and nothing runs before a plan.
 */
type Row =
  | { readonly tier: 'reads'; readonly calls: readonly object[] }
  | { readonly tier: 'words'; readonly calls: readonly object[] }
  | { readonly tier: 'writes'; readonly to: (path: string) => object }
  | { readonly tier: 'commands'; readonly run: (command: string) => object }

/** One row for each tool: a new tool has none and fails here until somebody decides what it may do. */
const rows: Readonly<Record<string, Row>> = {
  ask_user: { tier: 'words', calls: [{ question: 'Blue?' }] },
  background: { tier: 'commands', run: command => ({ action: 'start', command }) },
  bash: { tier: 'commands', run: command => ({ command }) },
  compact: { tier: 'words', calls: [{}] },
  edit_file: { tier: 'writes', to: path => ({ path, edits: [{ old_text: 'before', new_text: 'after' }] }) },
  grep: { tier: 'reads', calls: [{ pattern: 'before' }, { pattern: 'x', path: 'skills' }] },
  ls: { tier: 'reads', calls: [{}, { path: 'repo' }] },
  memory: {
    tier: 'words',
    calls: [{ action: 'save', content: 'kept' }, { action: 'read' }, { action: 'search', query: 'kept' }],
  },
  message: { tier: 'words', calls: [{ to: 'bob', content: 'hello' }] },
  read_file: { tier: 'reads', calls: [{ path: 'repo/a.txt' }, { path: 'NOTES.md' }] },
  request: { tier: 'words', calls: [{ action: 'open', type: 'question', body: 'Red?' }] },
  // What it may do is what these rows say of its tools, which are fewer.
  subagent: { tier: 'words', calls: [{ prompt: 'look' }] },
  task: { tier: 'words', calls: [{ action: 'list' }, { action: 'create', title: 'Another' }] },
  todo: { tier: 'words', calls: [{ items: [{ id: '1', text: 'one', status: 'pending' }] }] },
  write_file: { tier: 'writes', to: path => ({ path, content: 'after\n' }) },
}

let place: Place
beforeEach(() => {
  place = makePlace()
})
const open: ToolContext[] = []
afterEach(async () => {
  for (const context of open.splice(0)) await context.shell.stop(100)
  place.remove()
})

/** alice with a task in hand, her view, the real rules and the real holder. */
const at = (needsPlan: boolean) => {
  const permissions = { allow: ['echo *'], ask: ['git push'], deny: ['rm -rf'] }
  const { core, handlers } = coreOf(
    { sandbox: 'off', permissions, teammates: [{ name: 'alice', needsPlan }, { name: 'bob' }] },
    undefined,
    { workspace: place.workspace },
  )
  const [id = ''] = unwrap(core.tasks.add([{ title: 'one' }], { by: 'human' })).ids
  unwrap(core.tasks.move(id, 'supervisor', { move: 'start', owner: 'alice', branch: null }))
  const view = place.view('alice')
  for (const file of [join(view.cwd, 'a.txt'), join(view.home, 'out', 'a.txt')]) writeFileSync(file, 'before\n')
  const call = ((method, params) => handlers.call('alice', method, params)) as Call
  const shell = makeShell({
    view,
    probe: { kind: 'none', detail: 'not probed', remedy: null },
    mode: 'off',
    permissions,
    marker: `${view.home}#tiers`,
  })
  const more: Partial<ToolContext> = {
    call,
    task: () => ({ id, branch: null }),
    subagent: async () => said('looked'),
    shell,
    // How it lives on is no matter here: what may begin is the word of the same shell.
    background: {
      ...noBackground,
      async start(command, { trusted }) {
        const ran = await shell.run({ command, trusted, timeoutMs: 20_000, outputBytes: 1000, outputMaxBytes: 1000 })
        return 'refused' in ran ? ran : ok({ id: 'bg_1', log: null })
      },
    },
  }
  const context = toolContext(view, {}, more)
  open.push(context)
  const waiting = async (type: string): Promise<string[]> => {
    const { requests } = unwrap(await call('request.list', {}))
    return requests.filter(each => each.type === type).map(each => each.id)
  }
  /** Every file of the view but its memory, and what it says. */
  const files = (): string[] =>
    [view.cwd, view.home].flatMap(folder =>
      readdirSync(folder, { withFileTypes: true, recursive: true })
        .filter(entry => entry.isFile() && entry.name !== 'memory.md')
        .map(entry => join(entry.parentPath, entry.name))
        .map(file => `${file}: ${readFileSync(file, 'utf8')}`),
    )
  const approvePlan = async (): Promise<void> => {
    const { request } = unwrap(await call('request.open', { type: 'plan_request', body: 'I write a.txt', data: {} }))
    unwrap(await handlers.call('human', 'request.decide', { id: request.id, decision: 'approve' }))
  }
  return { context, view, waiting, files, approvePlan, repo: view.cwd }
}
const isGated = ({ text }: ToolResult): boolean => /^error: task \d+ needs an approved plan before anything/.test(text)

test('every tool has its tier', () => {
  for (const { schema } of defaultTools) expect(Object.keys(rows), `a row for ${schema.name}`).toContain(schema.name)
})

const withTier = <T extends Row['tier']>(tier: T) =>
  defaultTools.flatMap(({ schema: { name } }) => {
    const row = rows[name]
    return row?.tier === tier ? [[name, row as Extract<Row, { tier: T }>] as const] : []
  })

describe.each([false, true])('with a plan needed: %s', needsPlan => {
  test.each([...withTier('reads')])('%s reads, and changes nothing', async (name, { calls }) => {
    const { context, files, waiting } = at(needsPlan)
    const before = files()
    for (const args of calls) expect(await use(context, name, args), name).toMatchObject({ isError: false })
    expect(files()).toEqual(before)
    expect(await waiting('permission_request')).toEqual([])
  })

  test.each([...withTier('words')])(
    '%s says what it has to say, and no file of the work changes',
    async (name, { calls }) => {
      const { context, files, waiting } = at(needsPlan)
      const before = files()
      for (const args of calls) expect(await use(context, name, args), name).toMatchObject({ isError: false })
      expect(files()).toEqual(before)
      expect(await waiting('permission_request')).toEqual([])
    },
  )

  test.each([...withTier('writes')])('%s writes inside the view alone', async (name, { to }) => {
    const { context, repo, waiting, files, approvePlan } = at(needsPlan)
    const work = await use(context, name, to('repo/a.txt'))
    if (needsPlan) {
      expect(isGated(work), work.text).toBe(true)
      expect(readFileSync(join(repo, 'a.txt'), 'utf8')).toBe('before\n')
      await approvePlan()
      expect(await use(context, name, to('repo/a.txt'))).toMatchObject({ isError: false })
    } else expect(work).toMatchObject({ isError: false })
    expect(readFileSync(join(repo, 'a.txt'), 'utf8')).toBe('after\n')
    const before = files()
    for (const path of ['../a.txt', '/etc/hosts', 'TASK.md', 'skills/x', 'data/x', 'repo/.git/config'])
      expect(await use(context, name, to(path)), path).toMatchObject({ isError: true })
    expect(files()).toEqual(before)
    expect(await waiting('permission_request')).toEqual([])
  })

  test.each([...withTier('writes')])('%s puts notes and deliverables down without a plan', async (name, { to }) => {
    const { context, view } = at(needsPlan)
    expect(await use(context, name, to('out/a.txt'))).toMatchObject({ isError: false })
    expect(readFileSync(join(view.home, 'out', 'a.txt'), 'utf8')).toBe('after\n')
  })

  test.each([...withTier('commands')])(
    '%s runs by rule, asks for the rest, and runs nothing before a plan',
    async (name, { run }) => {
      const { context, repo, waiting, approvePlan } = at(needsPlan)
      const all = ['echo hello', 'touch made.txt', 'git push origin main', 'rm -rf a.txt']
      if (needsPlan) {
        for (const command of all) {
          const result = await use(context, name, run(command))
          expect(isGated(result), result.text).toBe(true)
        }
        expect(await waiting('permission_request')).toEqual([])
        await approvePlan()
      }
      const [allowed, unnamed, asked, denied] = await Promise.all(all.map(command => use(context, name, run(command))))
      expect(allowed).toMatchObject({ isError: false })
      expect(await waiting('permission_request')).toHaveLength(2)
      for (const result of [unnamed, asked])
        expect(result?.text).toMatch(/^opened req_\d+, human decides\.[\s\S]*It did not run: /)
      expect(denied?.text).toMatch(/^error: denied: .*rm -rf/)
      expect(existsSync(join(repo, 'made.txt'))).toBe(false)
      expect(existsSync(join(repo, 'a.txt'))).toBe(true)
    },
  )
})
