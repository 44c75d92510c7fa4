import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Request } from '../../src/protocol/request.ts'
import type { Status, TaskShown } from '../../src/protocol/rpc.ts'
import { statusOf, team, teamOk, tempFolder, until, willRun } from './cli.ts'
import { initRepo, type Repo } from './repo.ts'

/** A repository of a person and a team root beside it, driven by the built command. */
export interface GitTeam {
  readonly root: string
  readonly repo: Repo
  /** Puts a file into `.tasks/`, whole at once. */
  drop(name: string, content: string): void
  status(): Promise<Status>
  task(id: string): Promise<TaskShown>
  /** Waits until task `id` is shown as one of `words` (claimed, working, completed, …). */
  shown(id: string, ...words: string[]): Promise<TaskShown>
  requests(): Promise<Request[]>
  /** Waits for the request that waits about task `id`. */
  merge(id: string): Promise<Request & { type: 'merge_request' }>
  /** Every event of the journal, in order. */
  events(): JournalLine[]
  team(...args: string[]): ReturnType<typeof team>
  ok(...args: string[]): Promise<string>
  /** Where a teammate works. */
  clone(name: string): string
}

export interface JournalLine {
  readonly event: string
  readonly by: string
  readonly info?: Readonly<Record<string, unknown>>
}

/** What works with a sandbox and without: what the runbooks of these tests run is allowed by name. */
export const settings = {
  model: { provider: 'runbook' },
  sandbox: 'prefer',
  permissions: { allow: ['node *', 'git *', 'mkdir *', 'rm *', 'touch *', 'printf *'] },
}

export const gitTeam = (config: object, repo: Repo = initRepo(join(tempFolder(), 'project'))): GitTeam => {
  const root = `${repo.dir}-team`
  mkdirSync(join(root, '.tasks'), { recursive: true })
  writeFileSync(join(root, 'config.json'), JSON.stringify({ workspace: repo.dir, ...settings, ...config }))
  return drive(willRun(root), repo)
}

/** The same of a root that stands already. */
export const drive = (root: string, repo: Repo): GitTeam => {
  const at = ['--root', root]
  const json = async <T>(...args: string[]) => JSON.parse(await teamOk([...args, '--json', ...at])) as T
  const task = (id: string) => json<{ task: TaskShown }>('task', 'show', id).then(shown => shown.task)
  const requests = () => json<Request[]>('requests', '--all')
  return {
    root,
    repo,
    drop(name, content) {
      const made = join(root, '.tasks', `.${name}.made`)
      writeFileSync(made, content)
      renameSync(made, join(root, '.tasks', name))
    },
    status: () => statusOf(root),
    task,
    shown: (id, ...words) =>
      until(async () => {
        const list = await json<TaskShown[]>('task', 'list', '--all')
        const found = list.find(each => each.id === id)
        if (found?.shown === 'failed' && !words.includes('failed')) throw new Error(`task ${id} failed: ${found.error}`)
        return found && words.includes(found.shown) ? found : undefined
      }, 60_000),
    requests,
    merge: id =>
      until(async () => {
        const waiting = await json<Request[]>('requests')
        const found = waiting.find(each => each.type === 'merge_request' && each.data.task === id)
        return found as (Request & { type: 'merge_request' }) | undefined
      }, 60_000),
    events: () =>
      readdirSync(join(root, '.team', 'journal'))
        .filter(name => /^\d+\.jsonl$/.test(name))
        .sort()
        .flatMap(name =>
          readFileSync(join(root, '.team', 'journal', name), 'utf8')
            .trimEnd()
            .split('\n')
            .slice(1),
        )
        .map(line => JSON.parse(line) as JournalLine),
    team: (...args) => team([...args, ...at]),
    ok: (...args) => teamOk([...args, ...at]),
    clone: name => join(root, 'team', name, 'repo'),
  }
}

/** Everything of a person's checkout that a team must leave alone: refs, HEAD, index, stash, files; equal when untouched. */
export const fingerprint = (repo: Repo): Record<string, string> => ({
  head: repo.git('symbolic-ref', 'HEAD'),
  refs: repo.git('for-each-ref'),
  stash: repo.git('stash', 'list', '--format=%H %gs'),
  index: createHash('sha256')
    .update(readFileSync(join(repo.dir, '.git', 'index')))
    .digest('hex'),
  config: readFileSync(join(repo.dir, '.git', 'config'), 'utf8'),
  status: repo.git('--no-optional-locks', 'status', '--porcelain=v2', '--untracked-files=all'),
  worktrees: repo.git('worktree', 'list', '--porcelain'),
})

/** Runbook steps that write files and commit them. */
const steps = (files: Record<string, string>, message: string): string =>
  `${Object.entries(files)
    .map(([path, text]) => `~~~text file=${/\s/.test(path) ? `'${path}'` : path}\n${text}~~~\n`)
    .join('')}commit: ${message}\n`

/** A task's drop in Markdown: writes files and commits them. `mend` is done instead when it was sent back. */
export const runbook = (
  title: string,
  files: Record<string, string>,
  message: string,
  more: { head?: string; mend?: string } = {},
): string =>
  `---\ntitle: ${title}\n${more.head === undefined ? '' : `${more.head}\n`}---\n${steps(files, message)}${more.mend === undefined ? '' : `\n## If sent back\n${more.mend}`}`
runbook.steps = steps

/** A step that ends once somebody puts `.git/go` into the clone. */
runbook.gate = `~~~sh timeout=60
node -e "const fs = require('fs'); const t = setInterval(() => { if (fs.existsSync('.git/go')) { fs.rmSync('.git/go'); clearInterval(t) } }, 20)"
~~~
`
