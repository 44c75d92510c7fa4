import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
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

/** Where the files are. */
export interface Places {
  readonly root: string
  readonly repo: string
  /** `dir`: one shared folder, and no hub. */
  readonly kind: string
}

/**
 * Looks at the files of a root that is at rest, with no daemon, and at nothing else: every way in which it breaks what was
 * promised, in words. Shares no code with the program.
 */
export const check = ({ root, repo, kind }: Places, promised: Promised): string[] => {
  const { entries, records, faults } = readJournal(root)
  const tasks = [...(records.get('tasks') ?? new Map<string, Value>()).values()]
  const requests = [...(records.get('requests') ?? new Map<string, Value>()).values()]
  return [
    ...faults,
    ...checkTasks(root, tasks, entries, promised),
    ...checkMail(root, promised),
    ...checkRequests(root, tasks, requests, entries, promised),
    ...checkCalls(root),
    ...(kind === 'dir' ? checkFolder(repo, tasks) : checkGit(root, repo, tasks, entries)),
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
  for (const title of promised.tasks) if (!titles.has(title)) out.push(`task "${title}" exists 0 times`)
  for (const [title, times] of titles) if (times !== 1) out.push(`task "${title}" exists ${times} times`)
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

/** A file that has two names, from a crash within its rotation, is read once. */
const sessions = (root: string): Session[] => {
  const folder = join(root, '.team', 'sessions')
  const byName = new Map<string, string[]>()
  const seen = new Set<bigint>()
  for (const file of names(folder)) {
    const { ino } = statSync(join(folder, file), { bigint: true })
    if (seen.has(ino)) continue
    seen.add(ino)
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

interface Call {
  readonly id: string
  readonly name: string
  readonly arguments: string | null
}

/** By their words, to whom teammates sent messages and were told so. */
const sentByTeammates = (all: readonly Session[]): Map<string, string> => {
  const sent = new Map<string, string>()
  for (const { lines } of all) {
    const calls = new Map<unknown, Call>()
    for (const line of lines) {
      if (line.k === 'assistant') for (const call of line.calls as Call[]) calls.set(call.id, call)
      const call = line.k === 'tool.result' && line.isError === false ? calls.get(line.id) : undefined
      if (call?.name !== 'message' || !/: (?:delivered|queued) as /.test(text(line.text))) continue
      const { to, content } = JSON.parse(call.arguments ?? '{}') as { to?: string; content?: string }
      if (to !== undefined && content !== undefined) sent.set(content, to)
    }
  }
  return sent
}

/** Every message in exactly one context, once. Sessions may tell again what a context that began anew carries over: without `mail`. */
const checkMail = (root: string, promised: Promised): string[] => {
  const out: string[] = []
  const seen = new Map<string, number>()
  const inContext = new Map<string, string[]>()
  const all = sessions(root)
  for (const { name, lines } of all)
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
  for (const [word, to] of [...promised.messages, ...sentByTeammates(all)]) {
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
  tasks: readonly Value[],
  requests: readonly Value[],
  entries: readonly Entry[],
  promised: Promised,
): string[] => {
  const out: string[] = []
  const titles = new Set(tasks.map(({ title }) => text(title)))
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
  for (const [id, times] of intents) if (times > 1) out.push(`the effect of ${id} was begun ${times} times`)
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
  for (const { id, type, status, data } of requests) {
    if (type !== 'plan_request' || status !== 'approved') continue
    for (const { title } of ((data as Value).tasks ?? []) as Value[])
      if (!titles.has(text(title))) out.push(`task "${text(title)}" of ${text(id)} was never made`)
  }
  const status = new Map(requests.map(request => [text(request.id), text(request.status)]))
  for (const [id, how] of promised.decisions)
    if (status.get(id) !== how) out.push(`${id} was ${how}, as was told, and is ${status.get(id) ?? 'gone'}`)
  return out
}

/** What the commands of the models left: `call-<call>`, `commit-<name>` and `twice`. */
const marks = (root: string): { readonly file: string; readonly name: string }[] =>
  names(join(root, 'team')).flatMap(mate => {
    const folder = join(root, 'team', mate, 'out', 'ran')
    return names(folder).map(name => ({ file: join(folder, name), name }))
  })

/** Each command of a model makes a file of its own name; one that finds it there already says so. */
const checkCalls = (root: string): string[] =>
  marks(root).flatMap(({ file, name }) =>
    name === 'twice' ? [`run twice: ${readFileSync(file, 'utf8').trim().split('\n').join(', ')}`] : [],
  )

/** The name that git gives to a file of this text. */
const blobOf = (content: string): string =>
  createHash('sha1')
    .update(`blob ${Buffer.byteLength(content)}\0${content}`)
    .digest('hex')

/** The line of a task, and the name of its file. */
const lineOf = (task: Value): string => text(task.title).split(' ')[1] ?? ''

const checkFolder = (repo: string, tasks: readonly Value[]): string[] =>
  tasks.flatMap(task => {
    if (task.status !== 'completed') return []
    const file = `${lineOf(task)}.txt`
    const lines = existsSync(join(repo, file)) ? readFileSync(join(repo, file), 'utf8') : ''
    return lines === `${lineOf(task)}\n` ? [] : [`${file} holds ${JSON.stringify(lines)}`]
  })

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
  // What a clone was to bring when everything was killed is on its own branch there.
  const clones = names(join(root, 'team')).map(name => join(root, 'team', name, 'repo', '.git'))
  const all = new Set(
    [hub, ...clones.filter(existsSync)].flatMap(dir => git('--git-dir', dir, 'rev-list', '--all').split('\n')),
  )
  for (const { name } of marks(root)) {
    const sha = /^commit-(.*)$/.exec(name)?.[1]
    if (sha !== undefined && !all.has(sha)) out.push(`commit ${sha} is reachable from no ref of the hub or a clone`)
  }
  const trunk = git('log', '--first-parent', '--format=%H %T %s', 'team/trunk')
    .split('\n')
    .map(line => {
      const [sha = '', tree = '', ...subject] = line.split(' ')
      return { sha, tree, subject: subject.join(' ') }
    })
  /** The files on the trunk, by name: the blob of each. */
  const files = new Map(
    git('ls-tree', 'team/trunk')
      .split('\n')
      .map(line => [line.split('\t')[1] ?? '', line.split(/[ \t]/)[2] ?? '']),
  )
  const person = (...args: string[]) => execFileSync('git', ['-C', repo, ...args], { encoding: 'utf8' }).trim()
  const base = person('rev-list', '--max-parents=0', 'HEAD')
  if (person('rev-parse', 'HEAD') !== trunk[0]?.sha) out.push(`the person's branch is not at the trunk that was landed`)
  const dirty = person('status', '--porcelain')
  if (dirty !== '') out.push(`the person's work tree or index is torn: ${dirty}`)
  const verified = new Set(
    entries.flatMap(({ event, info }) => (event === 'verify.ended' && info?.ok === true ? [text(info.tree)] : [])),
  )
  // What was merged together was verified together: each commit at which the trunk ever stood, not those in between.
  const stood = new Set(git('log', '-g', '--format=%H', 'team/trunk').split('\n'))
  if (!stood.has(trunk[0]?.sha ?? '')) out.push(`the trunk's log does not know where it stands`)
  for (const { sha, tree } of trunk)
    if (sha !== base && stood.has(sha) && !verified.has(tree)) out.push(`trunk commit ${sha} was never verified`)
  for (const task of tasks) {
    const id = text(task.id)
    if ((task.result as Value | null)?.outcome !== 'merged') continue
    const times = trunk.filter(({ subject }) => subject.startsWith(`Merge task ${id}:`)).length
    if (times !== 1) out.push(`task ${id} was merged ${times} times`)
    const file = `${lineOf(task)}.txt`
    if (files.get(file) !== blobOf(`${lineOf(task)}\n`))
      out.push(`${file} on the trunk is ${files.get(file) ?? 'not there'}, and not its task's one line`)
  }
  return out
}

/** A lock of the root that was young when the last daemon ended: for all it could tell somebody was waiting with it. */
const mayBeAlive = (root: string, name: string): boolean =>
  name === '.team/holder.lock' &&
  statSync(join(root, '.team', 'journal')).mtimeMs - statSync(join(root, name)).mtimeMs < 5000

/** No process, lock, draft or temporary file is left. */
const checkLeft = (root: string): string[] => {
  const out: string[] = []
  for (const pid of names('/proc').filter(name => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ')
      const marked = readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`TEAM_COMMAND=${root}#`)
      if (words.includes(root) || marked) out.push(`process ${pid} is left: ${words.slice(0, 160)}`)
    } catch {
      // It ended while it was looked at.
    }
  }
  const isTemporary = (name: string) => /\.tmp$|^\.epoch-|\.lock$|^sock|\.next$/.test(name)
  const folders = ['.team', '.team/journal', '.team/sessions', '.tasks', '.messages', '.messages/requests']
  for (const folder of folders)
    for (const name of names(join(root, folder)).filter(isTemporary))
      if (!mayBeAlive(root, join(folder, name))) out.push(`${folder}/${name} is left`)
  const members = read(join(root, 'config.json')).teammates as readonly Value[]
  for (const { name } of members)
    for (const file of names(join(root, '.team', 'sessions')).filter(file => file.startsWith(`${text(name)}.sub-`)))
      out.push(`.team/sessions/${file} is left`)
  for (const name of names(join(root, '.team', 'verify'))) out.push(`.team/verify/${name} is left`)
  const repositories = ['.team/hub.git', ...names(join(root, 'team')).map(mate => `team/${mate}/repo/.git`)]
  for (const folder of repositories) {
    const there = existsSync(join(root, folder)) ? readdirSync(join(root, folder), { recursive: true }) : []
    for (const name of there.map(String).filter(name => name.endsWith('.lock'))) out.push(`${folder}/${name} is left`)
  }
  return out
}
