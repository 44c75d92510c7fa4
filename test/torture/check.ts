import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type Entry, readJournal, type Value } from './journal.ts'

/** What the driver knows that must be there, whatever was killed when. */
export interface Promised {
  /** Titles of tasks whose file was dropped, or whose adding was acknowledged. */
  readonly tasks: ReadonlySet<string>
  /** Words of messages to a teammate that were appended to its inbox, or whose sending was acknowledged. */
  readonly messages: ReadonlyMap<string, string>
  /** Requests whose decision was acknowledged, and what it was. */
  readonly decisions: ReadonlyMap<string, string>
}

/**
 * Looks at the files of a root that is at rest, with no daemon, and at nothing else: every way in which it breaks what was
 * promised, in words. Shares no code with the program.
 */
export const check = (root: string, repo: string, promised: Promised): string[] => {
  const { entries, records, faults } = readJournal(root)
  const tasks = [...(records.get('tasks') ?? new Map<string, Value>()).values()]
  const requests = [...(records.get('requests') ?? new Map<string, Value>()).values()]
  return [
    ...faults,
    ...checkTasks(root, tasks, entries, promised),
    ...checkMail(root, promised),
    ...checkRequests(root, requests, entries, promised),
    ...checkCalls(root),
    ...checkGit(root, repo, tasks, entries),
    ...checkLeft(root),
  ]
}

const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))
const read = (file: string): Value => JSON.parse(readFileSync(file, 'utf8')) as Value
const names = (folder: string): string[] => (existsSync(folder) ? readdirSync(folder) : [])

const checkTasks = (root: string, tasks: readonly Value[], entries: readonly Entry[], promised: Promised): string[] => {
  const out: string[] = []
  const titles = new Map<string, number>()
  for (const { title } of tasks) titles.set(text(title), (titles.get(text(title)) ?? 0) + 1)
  for (const title of promised.tasks)
    if (titles.get(title) !== 1) out.push(`task "${title}" exists ${titles.get(title) ?? 0} times`)
  const status = new Map(tasks.map(task => [text(task.id), text(task.status)]))
  for (const task of tasks) {
    const id = text(task.id)
    const file = [join(root, '.tasks', `task_${id}.json`), join(root, '.tasks', 'archive', `task_${id}.json`)].find(
      existsSync,
    )
    if (!file) {
      out.push(`task ${id} has no file`)
      continue
    }
    const shown = read(file)
    for (const [key, value] of Object.entries(task))
      if (!isDeepStrictEqual(shown[key], value))
        out.push(`${file}: ${key} is ${JSON.stringify(shown[key])}, in the journal ${JSON.stringify(value)}`)
    const open = (task.dependsOn as string[]).filter(each => status.get(each) !== 'completed')
    if (JSON.stringify(shown.blockedBy) !== JSON.stringify(open))
      out.push(`${file}: blockedBy is ${JSON.stringify(shown.blockedBy)}, derived ${JSON.stringify(open)}`)
  }
  // One owner at a time and one completion, by the events in their order.
  const owner = new Map<string, string>()
  const completed = new Map<string, number>()
  for (const { event, put } of entries) {
    if (put?.[0] !== 'tasks') continue
    const [, id, , value] = put
    const task = value as Value
    if (event === 'task.started') {
      const before = owner.get(id)
      if (before !== undefined) out.push(`task ${id} was given to ${text(task.owner)} while ${before} had it`)
      owner.set(id, text(task.owner))
    } else if (task.status !== 'in_progress' || task.claimed !== null) owner.delete(id)
    else if (event !== 'task.edited') owner.set(id, text(task.owner))
    if (event === 'task.completed') completed.set(id, (completed.get(id) ?? 0) + 1)
  }
  for (const [id, times] of completed) if (times !== 1) out.push(`task ${id} was completed ${times} times`)
  for (const task of tasks)
    if (task.status !== 'completed')
      out.push(`task ${text(task.id)} (${text(task.title)}) ended as ${text(task.status)}: ${text(task.error)}`)
  return out
}

interface Session {
  readonly name: string
  readonly lines: readonly Value[]
}

const sessions = (root: string): Session[] => {
  const folder = join(root, '.team', 'sessions')
  const byName = new Map<string, string[]>()
  for (const file of names(folder)) {
    const name = /^([a-z0-9-]+)(?:\.\d+)?\.jsonl$/.exec(file)?.[1]
    if (name) byName.set(name, [...(byName.get(name) ?? []), file])
  }
  return [...byName].map(([name, files]) => ({
    name,
    lines: files.flatMap(file =>
      readFileSync(join(folder, file), 'utf8')
        .split('\n')
        .slice(0, -1)
        .map(line => JSON.parse(line) as Value),
    ),
  }))
}

/** Every message in exactly one context, once. Sessions may tell again what a context that began anew carries over: without `mail`. */
const checkMail = (root: string, promised: Promised): string[] => {
  const out: string[] = []
  const seen = new Map<string, number>()
  const inContext = new Map<string, string[]>()
  for (const { name, lines } of sessions(root))
    for (const line of lines) {
      if (line.k !== 'items' || line.mail === undefined) continue
      for (const item of line.items as Value[]) {
        if (item.k !== 'message' && item.k !== 'request') continue
        const id = `${name} ${item.k} ${text(item.id)} ${text(item.index)}`
        seen.set(id, (seen.get(id) ?? 0) + 1)
        for (const word of text(item.content ?? item.body).match(/word-[\w-]+/g) ?? [])
          inContext.set(word, [...(inContext.get(word) ?? []), name])
      }
    }
  for (const [id, times] of seen) if (times !== 1) out.push(`${id} is in the context ${times} times`)
  for (const [word, to] of promised.messages) {
    const there = inContext.get(word) ?? []
    if (there.length !== 1 || there[0] !== to)
      out.push(`message ${word} to ${to} is in the contexts of: ${there.join(', ') || 'nobody'}`)
  }
  for (const [word, there] of inContext)
    if (there.length > 1) out.push(`message ${word} is in the contexts of ${there.join(', ')}`)
  return out
}

const checkRequests = (
  root: string,
  requests: readonly Value[],
  entries: readonly Entry[],
  promised: Promised,
): string[] => {
  const out: string[] = []
  const decided = new Map<string, number>()
  const intents = new Map<string, number>()
  const dones = new Map<string, number>()
  const count = (map: Map<string, number>, id: string) => map.set(id, (map.get(id) ?? 0) + 1)
  for (const { event, put } of entries) {
    if (put?.[0] !== 'requests') continue
    if (event === 'request.decided') count(decided, put[1])
    if (event === 'effect.intent') count(intents, put[1])
    if (event === 'effect.done') count(dones, put[1])
  }
  for (const [id, times] of decided) if (times > 1) out.push(`${id} was decided ${times} times`)
  for (const [id, times] of dones) if (times > 1) out.push(`the effect of ${id} ended ${times} times`)
  for (const request of requests) {
    const id = text(request.id)
    const file = join(root, '.messages', 'requests', `${id}.json`)
    if (!existsSync(file)) out.push(`${id} has no file`)
    else {
      const shown = read(file)
      for (const key of ['status', 'outcome', 'decidedBy', 'reason', 'effect', 'bodyHash', 'data'])
        if (!isDeepStrictEqual(shown[key], request[key]))
          out.push(`${file}: ${key} is ${JSON.stringify(shown[key])}, in the journal ${JSON.stringify(request[key])}`)
    }
    if (request.outcome === null) out.push(`${id} (${text(request.type)}) still waits`)
    const effect = request.effect as Value | null
    if (effect?.step === 'intent') out.push(`the effect of ${id} (${text(request.type)}) has no outcome`)
  }
  const status = new Map(requests.map(request => [text(request.id), text(request.status)]))
  for (const [id, how] of promised.decisions)
    if (status.get(id) !== how) out.push(`${id} was ${how}, as was told, and is ${status.get(id) ?? 'gone'}`)
  return out
}

/** Each command of a model makes a file of its own name; one that finds it there already says so. */
const checkCalls = (root: string): string[] => {
  const twice = join(root, 'ran', 'twice')
  return existsSync(twice) ? [`run twice: ${readFileSync(twice, 'utf8').trim().split('\n').join(', ')}`] : []
}

const checkGit = (root: string, repo: string, tasks: readonly Value[], entries: readonly Entry[]): string[] => {
  const out: string[] = []
  const hub = join(root, '.team', 'hub.git')
  const git = (...args: string[]) =>
    execFileSync('git', ['--git-dir', hub, ...args], { encoding: 'utf8', env: { PATH: process.env.PATH ?? '' } }).trim()
  try {
    git('fsck', '--connectivity-only', '--no-dangling')
  } catch (error) {
    out.push(`git fsck: ${error instanceof Error ? error.message.slice(0, 400) : error}`)
  }
  const all = new Set(git('rev-list', '--all').split('\n'))
  for (const sha of names(join(root, 'ran'))
    .filter(name => /^commit-/.test(name))
    .map(name => name.slice('commit-'.length)))
    if (!all.has(sha)) out.push(`commit ${sha} is reachable from no ref of the hub`)
  const trunk = git('rev-list', '--first-parent', 'team/trunk').split('\n')
  const base = execFileSync('git', ['-C', repo, 'rev-list', 'HEAD'], { encoding: 'utf8' }).trim().split('\n')
  const verified = new Set(
    entries.flatMap(({ event, info }) => (event === 'verify.ended' && info?.ok === true ? [text(info.tree)] : [])),
  )
  for (const sha of trunk)
    if (!base.includes(sha) && !verified.has(git('rev-parse', `${sha}^{tree}`)))
      out.push(`trunk commit ${sha} was never verified`)
  const merges = git('log', '--first-parent', '--merges', '--format=%s', 'team/trunk').split('\n')
  for (const task of tasks) {
    const id = text(task.id)
    if ((task.result as Value | null)?.outcome !== 'merged') continue
    const times = merges.filter(subject => subject.startsWith(`Merge task ${id}:`)).length
    if (times !== 1) out.push(`task ${id} was merged ${times} times`)
    const lines = git('show', `team/trunk:t${id}.txt`)
    if (lines !== id) out.push(`t${id}.txt on the trunk holds ${JSON.stringify(lines)}`)
  }
  return out
}

/** No process, lock, draft or temporary file is left. */
const checkLeft = (root: string): string[] => {
  const out: string[] = []
  for (const pid of names('/proc').filter(name => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ')
      if (words.includes(root)) out.push(`process ${pid} is left: ${words.slice(0, 160)}`)
    } catch {
      // It ended while it was looked at.
    }
  }
  const isTemporary = (name: string) => /\.tmp$|^\.epoch-|\.lock$|^sock|\.next$/.test(name)
  for (const folder of [
    '.team',
    '.team/journal',
    '.team/sessions',
    '.tasks',
    '.messages',
    '.messages/requests',
    '.team/hub.git',
  ])
    for (const name of names(join(root, folder)).filter(isTemporary)) out.push(`${folder}/${name} is left`)
  for (const name of names(join(root, '.team', 'verify'))) out.push(`.team/verify/${name} is left`)
  return out
}
