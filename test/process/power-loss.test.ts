import { createHash } from 'node:crypto'
import { appendFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

vi.mock('node:fs', async original =>
  (await import('../support/recorded-disk.ts')).recordingFs(await original<typeof import('node:fs')>()),
)
vi.mock('node:fs/promises', async original =>
  (await import('../support/recorded-disk.ts')).recordingPromises(await original<typeof import('node:fs/promises')>()),
)

import { Session } from '../../src/agent/session.ts'
import { openHub } from '../../src/git/hub.ts'
import { clock } from '../../src/lib/clock.ts'
import { ok, unwrap } from '../../src/lib/result.ts'
import { Config, members } from '../../src/protocol/config.ts'
import type { HoldOptions } from '../../src/store/files/holder.ts'
import { InboxFolder } from '../../src/store/files/inbox-folder.ts'
import type { Problem } from '../../src/store/files/problem.ts'
import { RequestsFolder } from '../../src/store/files/requests-folder.ts'
import { TasksFolder } from '../../src/store/files/tasks-folder.ts'
import { type Holder, hold, openReadOnly } from '../../src/store/index.ts'
import { Mail } from '../../src/supervisor/mail.ts'
import { Requests } from '../../src/supervisor/requests.ts'
import { Roster } from '../../src/supervisor/roster.ts'
import { Tasks } from '../../src/supervisor/tasks.ts'
import { anyChoice, type Choice, corners, DiskState, disk, type Image, lay, seeded } from '../support/recorded-disk.ts'
import { initRepo, repoAt } from '../support/repo.ts'

const real = await vi.importActual<typeof import('node:fs')>('node:fs')

/** How many states beside the corners are made at each cut. `POWER_STATES=50` for a long run, `POWER_SEED` for another. */
const more = Number(process.env.POWER_STATES ?? 1)
const seed = Number(process.env.POWER_SEED ?? 1)
const why = { event: 'warning', by: 'human' } as const

let root: string
let base: string
beforeEach(() => {
  base = real.mkdtempSync(join(tmpdir(), 'team-power-'))
  root = join(base, 'root')
  real.mkdirSync(root)
})
afterEach(() => {
  disk.end()
  real.rmSync(base, { recursive: true, force: true })
})

/** Each state that a cut after each act may leave, once, with what was promised by then. */
function* states(from: number): Generator<{ at: string; image: Image; promised: readonly string[] }> {
  const acts = disk.end()
  const state = new DiskState(root)
  const promised: string[] = []
  let seen = new Set<string>()
  const random = seeded(seed)
  for (const [index, act] of acts.entries()) {
    if (act.act === 'promise') {
      promised.push(act.what)
      seen = new Set()
    } else state.take(act)
    if (index < from || act.act === 'identity') continue
    const choices: [string, Choice][] = Object.entries(corners)
    for (let n = 0; n < more; n++) choices.push([`any ${n}`, anyChoice(random)])
    for (const [name, choice] of choices) {
      const image = state.image(choice)
      const hash = createHash('sha1')
      for (const [path, file] of image)
        hash
          .update(`${path}\0`)
          .update(file?.bytes ?? 'folder')
          .update('\0')
      const print = hash.digest('hex')
      if (seen.has(print)) continue
      seen.add(print)
      yield { at: `after act ${index} of ${acts.length} (${act.act}), ${name}`, image, promised }
    }
  }
}

/** Makes every such state and looks at it; says how many there were, and what was wrong with the first ones. */
const look = async (
  from: number,
  check: (root: string, promised: readonly string[]) => Promise<readonly string[]>,
): Promise<{ states: number; wrong: string[] }> => {
  const wrong: string[] = []
  let count = 0
  const all = states(from)
  // Opening a root waits for one thing and another: many do it side by side.
  const worker = async (): Promise<void> => {
    for (let next = all.next(); !next.done && wrong.length < 20; next = all.next()) {
      const { at, image, promised } = next.value
      const there = join(base, `state-${count++}`)
      real.mkdirSync(there)
      const forget = lay(image, there, real)
      const said = [...promised]
      for (const each of await check(there, said).catch(error => [String(error.stack)]))
        wrong.push(`${at}: ${each.replaceAll(there, '')}`)
      if (process.env.POWER_KEEP === undefined) real.rmSync(there, { recursive: true })
      forget()
    }
  }
  disk.isQuick = true
  try {
    await Promise.all(Array.from({ length: 96 }, worker))
  } finally {
    disk.isQuick = false
  }
  return { states: count, wrong }
}

const config = Config.parse({ teammates: [{ name: 'alice' }] })
const roster = new Roster(config, members(config))

interface Team {
  readonly mail: Mail
  readonly holder: Holder
  readonly tasks: Tasks
  readonly requests: Requests
  readonly folders: readonly [TasksFolder, InboxFolder, RequestsFolder]
  readonly problems: Problem[]
  close(): Promise<void>
}

const options = { version: 'test', clock }
/** Small, so that a short run has new epochs and snapshots. */
const small = { segmentBytes: 5000, replayEpochs: 2, replayBytes: 20_000 }
/** And so that old epochs go. A file of `.tasks` that is older than what is kept would be a hand's: so not with folders. */
const forgetful: HoldOptions['limits'] = { ...small, keep: { bytes: 6000, epochs: 2 } }

const open = async (there: string): Promise<Team | string> => {
  const held = await hold(there, 'daemon', { ...options, limits: small })
  if (!held.ok) return `refused: ${held.fault.code} ${held.fault.message}`
  const holder = held.value
  const { store } = holder
  const tasks = new Tasks(store, clock)
  tasks.recover()
  const problems: Problem[] = []
  const mail = new Mail({ store, clock, roster, away: () => null })
  const requests = new Requests(store, clock, mail)
  const common = {
    root: there,
    store,
    clock,
    onProblem: (problem: Problem) => void problems.push(problem),
    onFailure: (error: unknown) => {
      throw error
    },
  }
  const tasksFolder = new TasksFolder({
    ...common,
    blockedBy: task => tasks.graph.blockedBy(task),
    onDrop: async (drops, from) => {
      const added = tasks.add(drops, { by: 'human', ...from })
      if (!added.ok) return added
      await added.value.durable
      return ok({ ids: added.value.ids, isKnown: added.value.isKnown === true })
    },
    onEdit: async (id, edit) => {
      const edited = tasks.edit(id, edit, 'human')
      if (edited.ok) await edited.value.durable
      return edited
    },
    limits: { archiveAfter: 1 },
  })
  const inboxes = new InboxFolder({
    ...common,
    names: ['alice'],
    limits: { messageBytes: 10_000, inboxBytes: 900 },
    onTask: () => {},
    quietMs: 0,
  })
  const requestsFolder = new RequestsFolder(common)
  await tasksFolder.start()
  await inboxes.start()
  await requestsFolder.start()
  return {
    holder,
    tasks,
    mail,
    requests,
    folders: [tasksFolder, inboxes, requestsFolder],
    problems,
    close: async () => {
      await tasksFolder.close()
      await inboxes.close()
      await requestsFolder.close()
      await holder.release()
    },
  }
}

const say = (content: string) => ({ from: 'supervisor', to: 'alice', type: 'info', content }) as const

test('whatever a power cut leaves of a team root, what was promised is there, nothing is there twice, and it starts', async () => {
  disk.begin(root)
  const team = await open(root)
  if (typeof team === 'string') throw new Error(team)
  const { holder, tasks, mail, requests, folders } = team
  const { store } = holder
  const inbox = join(root, '.messages', 'alice.inbox.jsonl')
  const promise = async (what: string, durable: Promise<unknown>) => {
    await durable
    disk.promise(what)
  }
  const settle = async () => {
    for (const folder of folders) await folder.settled()
  }
  for (let n = 1; n <= 2; n++) {
    // A drop of a person, and mail by a program that knows nothing of ids: neither flushes.
    writeFileSync(join(root, '.tasks', `drop-${n}.json`), JSON.stringify({ title: `dropped ${n}` }))
    appendFileSync(inbox, `${JSON.stringify({ from: 'cron', to: 'alice', type: 'info', content: `foreign ${n}` })}\n`)
    const added = unwrap(tasks.add([{ title: `added ${n}` }], { by: 'human' }))
    await promise(`task added ${n}`, added.durable)
    const sent = unwrap(mail.send(say(`sent ${n}`)))
    await promise(`mail sent ${n}`, sent.durable)
    await settle()
    disk.promise(`task dropped ${n}`)
    disk.promise(`mail foreign ${n}`)
    const [id = ''] = added.ids
    unwrap(tasks.move(id, 'alice', { move: 'start', owner: 'alice', branch: null }))
    await promise(`done ${n}`, unwrap(tasks.finish(id, 'alice', 'done')).durable)
    const asked = unwrap(
      requests.open({
        type: 'question',
        from: 'alice',
        to: 'human',
        title: `asked ${n}`,
        body: 'x',
        data: {} as never,
      }),
    )
    await promise(`request asked ${n}`, asked.durable)
    await store.inbox('alice').ack('alice', store.inbox('alice').last, why).durable
    disk.promise(`read ${n}`)
    await settle()
  }
  await team.close()
  const found = await look(0, check)
  expect(found.wrong).toEqual([])
  expect(found.states).toBeGreaterThan(200)
})

const check = async (there: string, promised: readonly string[]): Promise<string[]> => {
  const wrong: string[] = []
  const team = await open(there)
  if (typeof team === 'string') return [team]
  const { store, report } = team.holder
  for (const folder of team.folders) await folder.settled()
  const titles = [...store.tasks.list()].map(([, { value }]) => value.title)
  const asked = [...store.requests.list()].map(([, { value }]) => value.title)
  const inbox = store.inbox('alice')
  const contents = inbox.read(0).map(({ value }) => value.message.content)
  const unread = inbox.read(inbox.cursor('alice')).map(({ value }) => value.message.content)
  for (const what of promised) {
    const [kind, ...rest] = what.split(' ')
    const name = rest.join(' ')
    if (kind === 'task' && !titles.includes(name)) wrong.push(`${what} is lost`)
    if (kind === 'request' && !asked.includes(name)) wrong.push(`${what} is lost`)
    if (kind === 'mail' && !contents.includes(name) && !promised.includes(`read ${name.split(' ')[1]}`))
      wrong.push(`${what} is lost`)
    if (kind === 'read')
      for (const each of [`foreign ${name}`, `sent ${name}`])
        if (unread.includes(each)) wrong.push(`"${each}" comes a second time`)
    if (
      kind === 'done' &&
      ![...store.tasks.list()].some(([, { value }]) => value.title === `added ${name}` && value.status === 'completed')
    )
      wrong.push(`${what} is lost`)
  }
  for (const list of [titles, asked, contents])
    for (const [at, each] of list.entries()) if (list.indexOf(each) !== at) wrong.push(`"${each}" is there twice`)
  for (const problem of team.problems)
    if (!isOfHalf(problem, titles)) wrong.push(`told of ${problem.file}: ${problem.reason}`)
  for (const [id, { value, rev }] of store.tasks.list()) {
    const files = ['.tasks', '.tasks/archive']
      .map(folder => join(there, folder, `task_${id}.json`))
      .filter(path => real.existsSync(path))
    const shown = files.map(path => read(path))
    if (shown.length !== 1 || shown[0]?.rev !== rev || shown[0]?.status !== value.status)
      wrong.push(`the file of task ${id} (rev ${rev}) is ${JSON.stringify(shown)}`)
  }
  const told = store.deadLetters.last
  await team.close()
  const again = await hold(there, 'daemon', { ...options, limits: small })
  if (!again.ok) return [...wrong, `refused the second time: ${again.fault.message}`]
  if (again.value.store.deadLetters.last !== told) wrong.push('half of a line is told twice')
  if (report.cut && again.value.report.cut) wrong.push('the cut tail is told twice')
  await again.value.release()
  return wrong
}

const read = (path: string): { rev?: number; status?: string } => {
  try {
    return JSON.parse(real.readFileSync(path, 'utf8'))
  } catch {
    return {}
  }
}

/**
 * What may be told: half of a person's file that nobody took in yet; half of a page, which is kept beside it, since a hand
 * might have written it so; half of a line, which is a dead letter.
 */
const isOfHalf = ({ kind, file, reason }: Problem, titles: readonly string[]): boolean =>
  kind === 'drop'
    ? !titles.includes(`dropped ${/drop-(\d)/.exec(file)?.[1]}`)
    : /: not (valid )?JSON: /.test(reason) && ['edit', 'request', 'letter'].includes(kind)

test('a journal that is filled ahead: what was promised is read, and no state is refused', async () => {
  disk.begin(root)
  const holder = unwrap(await hold(root, 'daemon', options))
  const { marks } = holder.store
  const mark = (id: string) => {
    const put = marks.create(id, { text: id.repeat(5000) }, why)
    if (!put.ok) throw new Error('refused')
    return put.durable.then(() => disk.promise(id))
  }
  for (let n = 0; n < 10; n++) await mark(`a${n}`)
  await Promise.all(Array.from({ length: 6 }, (_, n) => mark(`b${n}`)))
  await mark('c')
  await holder.release()
  const found = await look(0, async (there, promised) => {
    const read = openReadOnly(there, clock)
    if (!read.ok) return [`refused: ${read.fault.message}`]
    return promised.flatMap(id =>
      read.value.store.marks.get(id)?.value.text === id.repeat(5000) ? [] : [`${id} is lost`],
    )
  })
  expect(found.wrong).toEqual([])
  expect(found.states).toBeGreaterThan(50)
})

test('a journal of many epochs, with snapshots, the old ones deleted: what was promised is read, and no state is refused', async () => {
  disk.begin(root)
  const marked = async (from: number): Promise<void> => {
    const holder = unwrap(await hold(root, 'daemon', { ...options, limits: forgetful }))
    const { marks } = holder.store
    for (let n = from; n < from + 12; n++) {
      const put = marks.create(`m${n}`, { text: 'x'.repeat(900) }, why)
      if (!put.ok) throw new Error('refused')
      await put.durable
      disk.promise(`m${n}`)
    }
    await holder.release()
  }
  for (const from of [0, 12, 24]) await marked(from)
  expect(real.readdirSync(join(root, '.team', 'journal'))).not.toContain('00000001.jsonl')
  const found = await look(0, async (there, promised) => {
    const read = openReadOnly(there, clock)
    if (!read.ok) return [`refused: ${read.fault.message}`]
    const { marks } = read.value.store
    const lost = promised.filter(id => marks.get(id) === undefined).map(id => `${id} is lost`)
    // Every third is gone on with: what a holder writes after the cut must not mix with what was there.
    if (Number(createHash('sha1').update(there).digest()[0]) % 3 > 0) return lost
    const held = await hold(there, 'daemon', { ...options, limits: forgetful })
    if (!held.ok) return [...lost, `refused: ${held.fault.message}`]
    await held.value.release()
    const after = openReadOnly(there, clock)
    const same = after.ok && after.value.store.marks.size === marks.size
    return same ? lost : [...lost, 'it is another state after the next holder']
  })
  expect(found.wrong).toEqual([])
  expect(found.states).toBeGreaterThan(100)
})

test('a session: what it was told lasts, over a new file too, and a torn end is cut', async () => {
  disk.begin(root)
  const file = join(root, '.team', 'sessions', 'alice.jsonl')
  const session = unwrap(Session.open(file, clock))
  session.begin('be brief', false)
  const note = (text: string) => {
    session.take([{ k: 'note', text }])
    disk.promise(text.slice(0, 5))
  }
  for (const n of [1, 2, 3]) note(`note${n}`)
  // Past the size from which a context that begins anew begins in another file.
  note(`note4${'x'.repeat(8 * 1024 * 1024)}`)
  session.begin('be brief', false)
  disk.promise('anew')
  note('note5')
  session.close()
  const found = await look(0, async (there, promised) => {
    const path = join(there, '.team', 'sessions', 'alice.jsonl')
    const opened = Session.open(path, clock)
    if (!opened.ok) return [`refused: ${opened.fault.message}`]
    const size = real.statSync(path).size
    const again = unwrap(Session.open(path, clock))
    const told = JSON.stringify(again.context.messages)
    again.close()
    opened.value.close()
    const wrong = again.cutBytes === 0 && real.statSync(path).size === size ? [] : ['a torn end is cut twice']
    if (promised.includes('anew') && told.includes('note4')) wrong.push('the old context is back')
    // What is in the context no more is in the file beside it.
    const old = path.replace('.jsonl', '.1.jsonl')
    const kept = real.existsSync(old) ? real.readFileSync(old, 'utf8') : ''
    for (const each of promised)
      if (each !== 'anew' && !told.includes(each) && (each === 'note5' || !kept.includes(each)))
        wrong.push(`${each} is lost`)
    return wrong
  })
  expect(found.wrong).toEqual([])
  expect(found.states).toBeGreaterThan(20)
})

test('a ref of the hub that moved: git flushes objects and file, and the folder with its name is flushed after', async () => {
  const repo = initRepo(join(base, 'ws'), { 'a.txt': '1\n' })
  const dir = join(root, '.team', 'hub.git')
  const hub = unwrap(
    await openHub({ workspace: repo.dir, hubDir: dir, trunk: 'team/trunk', env: { PATH: process.env.PATH } }),
  )
  const clone = repoAt(join(root, 'team', 'alice', 'repo'))
  unwrap(await hub.ensureClone('alice', clone.dir))
  const bare = repoAt(dir)
  expect(bare.git('config', 'core.fsync')).toBe('committed,reference')
  clone.git('switch', '-q', '-c', 'team/task-1', await hub.trunk())
  const head = clone.commit('One', { 'b.txt': 'b\n' })
  const flushed = async (act: () => Promise<unknown>): Promise<string[]> => {
    disk.begin(root)
    await act()
    return disk.end().flatMap(each => (each.act === 'sync folder' ? [each.path.slice(dir.length + 1)] : []))
  }
  expect(await flushed(() => hub.fetchBranch(clone.dir, 'team/task-1'))).toContain('refs/heads/team')
  const seen = unwrap(await hub.preview(head))
  if (!seen.clean) throw new Error('a conflict')
  const { onto, tree } = seen
  expect(await flushed(() => hub.merge({ head, tree, onto, message: 'x' }))).toContain('refs/heads/team')
  clone.git('update-ref', 'refs/team/rescue/1', head)
  expect(await flushed(() => hub.fetchRescue(clone.dir, 'alice'))).toContain('refs/team/rescue/alice')
})
