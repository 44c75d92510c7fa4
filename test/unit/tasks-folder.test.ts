import {
  appendFileSync,
  closeSync,
  copyFileSync,
  existsSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { clock, iso } from '../../src/lib/clock.ts'
import { fail, ok } from '../../src/lib/result.ts'
import { Graph } from '../../src/protocol/graph.ts'
import { move, Task, type TaskDrop } from '../../src/protocol/task.ts'
import type { HandEdit } from '../../src/protocol/task-file.ts'
import type { Problem } from '../../src/store/files/problem.ts'
import { TasksFolder } from '../../src/store/files/tasks-folder.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import { foreign, json, tempRoot, until } from '../support/folders.ts'

const by = { event: 'task.created', by: 'supervisor' } as const
let root: string
let workspace: string
let remove: () => void
let dir: string
let store: Store
let team: Team
beforeEach(() => {
  ;({ root, remove } = tempRoot())
  workspace = mkdtempSync(join(tmpdir(), 'team-workspace-'))
  dir = join(root, '.tasks')
  store = openMemoryStore(clock)
  team = new Team()
})
afterEach(async () => {
  await team.stop()
  remove()
  rmSync(workspace, { recursive: true })
})

/** As much of a supervisor as the folder asks for: ids, cycles, one drop for each key. */
class Team {
  readonly problems: Problem[] = []
  readonly mended: string[] = []
  readonly edits: [string, HandEdit][] = []
  readonly submitted: string[] = []
  readonly keys = new Map<string, string[]>()
  readonly graph = new Graph()
  folder: TasksFolder | undefined
  /** Where the clock stands that tells a file which nobody finishes; null: it goes. */
  heldAt: number | null = null
  #nextId = 1

  async start(archiveAfter = 500): Promise<TasksFolder> {
    for (const [, { value }] of store.tasks.list()) this.graph.put(value)
    store.tasks.watch((_id, { value }) => {
      this.graph.put(value)
      for (const id of this.graph.dependants(value.id)) folder.touch(id)
    })
    const folder = new TasksFolder({
      root,
      workspace,
      store,
      blockedBy: task => this.graph.blockedBy(task),
      onDrop: async (drops, { file, key }) => this.#drop(drops, file, key),
      onEdit: (id, edit) => this.#edit(id, edit),
      onProblem: problem => this.problems.push(problem),
      onMended: file => this.mended.push(file),
      onFailure: error => {
        throw error
      },
      limits: { archiveAfter },
      clock: { ...clock, mono: () => this.heldAt ?? clock.mono() },
    })
    this.folder = folder
    await folder.start()
    return folder
  }

  async stop(): Promise<void> {
    await this.folder?.close()
    this.folder = undefined
  }

  #drop(drops: readonly TaskDrop[], file: string, key: string) {
    this.submitted.push(file)
    const known = this.keys.get(key)
    if (known) return ok({ ids: known, isKnown: true })
    for (const { id } of drops)
      if (id !== undefined && store.tasks.get(id)) return fail('conflict', `id ${id} is taken`)
    const ids = drops.map(drop => {
      while (store.tasks.get(String(this.#nextId))) this.#nextId++
      const id = drop.id ?? String(this.#nextId)
      add(id, { title: drop.title, dependsOn: drop.blockedBy ?? [], description: drop.description ?? '', file })
      return id
    })
    this.keys.set(key, ids)
    return ok({ ids, isKnown: false })
  }

  #edit(id: string, edit: HandEdit) {
    this.edits.push([id, edit])
    const rec = store.tasks.get(id)
    if (!rec) return fail('unknown', `no task ${id}`)
    const { cancel, dependsOn, ...rest } = edit
    const cycle = dependsOn && this.graph.cycle(new Map([[id, dependsOn]]))
    if (cycle) return fail('refused', `task ${id} would wait for itself: ${cycle.join(' → ')}`)
    let task = { ...rec.value, ...rest, dependsOn: [...(dependsOn ?? rec.value.dependsOn)] } as Task
    if (cancel) task = move(task, { move: 'cancel', reason: 'by hand', at: now() }) ?? task
    store.tasks.update(id, rec.rev, task, { event: 'task.edited', by: 'human' })
    return ok(undefined)
  }
}

/** What stands wrong with drops, by file. */
const reasons = (): [string, string][] =>
  (team.folder?.problems() ?? [])
    .map(({ file, reason }): [string, string] => [file, reason])
    .sort(([a], [b]) => (a < b ? -1 : 1))
const now = () => iso(clock.wall())
const add = (id: string, fields: Partial<Task> = {}) =>
  store.tasks.create(id, Task.parse({ id, title: `task ${id}`, createdAt: now(), updatedAt: now(), ...fields }), by)
const change = (id: string, fields: Partial<Task>) => {
  const rec = store.tasks.get(id)
  if (!rec) throw new Error(`no task ${id}`)
  store.tasks.update(id, rec.rev, { ...rec.value, ...fields }, { event: 'task.edited', by: 'supervisor' })
}
const end = (id: string, status: 'completed' | 'failed' | 'cancelled' = 'completed') =>
  change(id, { status, completedAt: now() })
const at = (name: string) => join(dir, name)
const file = (id: string) => json(at(`task_${id}.json`))
const rewrite = (id: string, fields: Record<string, unknown>) =>
  writeFileSync(at(`task_${id}.json`), JSON.stringify({ ...file(id), ...fields }))
const title = (id: string) => store.tasks.get(id)?.value.title
const rejected = (id: string) => readdirSync(dir).filter(name => name.startsWith(`task_${id}.rejected-`))

describe('projection', () => {
  test('each task stands in its file, contract keys first, with what blocks it', async () => {
    add('1')
    add('2', { dependsOn: ['1'] })
    const folder = await team.start()
    await folder.projected()
    expect(Object.keys(file('2')).slice(0, 8)).toEqual([
      'id', 'title', 'description', 'status', 'blockedBy', 'createdAt', 'completedAt', 'dependsOn',
    ]) // biome-ignore format: a list
    expect(file('2')).toMatchObject({ v: 1, rev: 1, blockedBy: ['1'], dependsOn: ['1'] })
    expect(readFileSync(at('task_2.json'), 'utf8')).toMatch(/^\{\n {2}"id": "2",\n.*\n\}\n$/s)
    expect(statSync(at('task_2.json')).mode & 0o777).toBe(0o600)
    end('1')
    await folder.projected()
    expect(file('2')).toMatchObject({ rev: 1, blockedBy: [] })
    expect(readdirSync(dir).filter(name => name.startsWith('.'))).toEqual([])
  })

  test('a burst of changes is shown in its last state, and a reader never sees half a file', async () => {
    const folder = await team.start()
    add('1', { description: 'x'.repeat(100_000) })
    await folder.projected()
    const writer = (async () => {
      for (let i = 0; i < 200; i++) {
        change('1', { title: `title ${i}` })
        await sleep(1)
      }
    })()
    let reads = 0
    let isDone = false
    void writer.then(() => {
      isDone = true
    })
    while (!isDone) {
      expect(file('1').id).toBe('1')
      reads++
      await sleep(0)
    }
    await folder.projected()
    expect(file('1')).toMatchObject({ title: 'title 199', rev: 201 })
    expect(reads).toBeGreaterThan(10)
    expect(team.edits).toEqual([])
  })

  test('nothing is shown before it is durable', async () => {
    let release = () => {}
    const gate = new Promise<void>(resolve => {
      release = resolve
    })
    const flushed = store.flushed.bind(store)
    const folder = await team.start()
    store.flushed = () => gate.then(flushed)
    add('1')
    await sleep(100)
    expect(existsSync(at('task_1.json'))).toBe(false)
    release()
    await folder.projected()
    expect(file('1').title).toBe('task 1')
  })

  test('at the start a missing file is written, a stale one rewritten, an edited one taken in', async () => {
    for (const id of ['1', '2', '3', '4']) add(id)
    await (await team.start()).projected()
    await team.stop()
    const stale = readFileSync(at('task_2.json'))
    change('2', { title: 'newer' })
    rmSync(at('task_1.json'))
    rewrite('3', { title: 'by hand' })
    writeFileSync(at('task_4.json'), '')
    const folder = await team.start()
    await folder.settled()
    expect(file('1').title).toBe('task 1')
    expect(stale.toString()).toContain('task 2')
    expect(file('2')).toMatchObject({ title: 'newer', rev: 2 })
    expect(title('3')).toBe('by hand')
    expect(file('3')).toMatchObject({ title: 'by hand', rev: 2 })
    expect(file('4').title).toBe('task 4')
    expect(team.problems).toEqual([])
    expect(rejected('2')).toEqual([])
  })
})

describe('drops', () => {
  test('a dropped file becomes a task, and the original moves to dropped/', async () => {
    const folder = await team.start()
    writeFileSync(at('a.json'), '{"title":"from JSON"}')
    await until('the drop', () => existsSync(at('task_1.json')))
    writeFileSync(at('b.md'), '# from Markdown\n\ntext')
    writeFileSync(at('c.yaml'), 'title: from YAML')
    await folder.settled()
    expect(['1', '2', '3'].map(title)).toEqual(['from JSON', 'from Markdown', 'from YAML'])
    expect(readdirSync(join(dir, 'dropped')).sort()).toEqual(['a.json', 'b.md', 'c.yaml'])
    expect(readdirSync(dir).sort()).toEqual(['archive', 'dropped', 'task_1.json', 'task_2.json', 'task_3.json'])
    writeFileSync(at('a.json'), '{"title":"again"}')
    await folder.settled()
    expect(title('4')).toBe('again')
    expect(readdirSync(join(dir, 'dropped'))).toContain('a.2.json')
  })

  test('files that lie there at the start are taken in, in the order a person sees them', async () => {
    mkdirSync(dir)
    for (const n of [10, 9, 2, 1]) writeFileSync(at(`step-${n}.json`), JSON.stringify({ title: `step ${n}` }))
    await team.start()
    await team.folder?.settled()
    expect(['1', '2', '3', '4'].map(title)).toEqual(['step 1', 'step 2', 'step 9', 'step 10'])
  })

  test('a hand-made task_7.json keeps its id, and its file becomes the projection', async () => {
    const folder = await team.start()
    writeFileSync(
      at('task_7.json'),
      '{"id":7,"title":"seven","description":"","status":"pending","blockedBy":[],"createdAt":1}',
    )
    await folder.settled()
    expect(title('7')).toBe('seven')
    expect(file('7')).toMatchObject({ v: 1, rev: 1, id: '7' })
    expect(readdirSync(join(dir, 'dropped'))).toEqual(['task_7.json'])
    expect(team.problems).toEqual([])
  })

  test('an invalid drop stays, with its reason beside it, told once over restarts; mending it clears that', async () => {
    let folder = await team.start()
    writeFileSync(at('bad.json'), '{"titel":"x"}')
    await folder.settled()
    const note = readFileSync(at('bad.json.error.txt'), 'utf8')
    expect(note).toContain('titel: unknown key (did you mean "title"?)')
    expect(team.problems).toHaveLength(1)
    expect(team.problems[0]).toMatchObject({ kind: 'drop', file: '.tasks/bad.json', standing: true, known: false })
    await team.stop()
    folder = await team.start()
    await folder.settled()
    expect(team.problems.map(problem => problem.known)).toEqual([false, true])
    expect(folder.problems()).toHaveLength(1)
    writeFileSync(at('bad.json'), '{"title":"x"}')
    await folder.settled()
    expect(title('1')).toBe('x')
    expect(existsSync(at('bad.json.error.txt'))).toBe(false)
    expect(team.mended).toEqual(['.tasks/bad.json'])
    expect(folder.problems()).toEqual([])
  })

  test('removing an invalid drop clears its note; a note of somebody else is left alone', async () => {
    const folder = await team.start()
    writeFileSync(at('mine.error.txt'), 'my own notes')
    writeFileSync(at('bad.json'), '[1]')
    await folder.settled()
    rmSync(at('bad.json'))
    await folder.settled()
    expect(readdirSync(dir).sort()).toEqual(['archive', 'mine.error.txt'])
    expect(folder.problems()).toEqual([])
  })

  test('B07 a drop written in two halves is taken whole, without a false error', async () => {
    const folder = await team.start()
    for (const [name, whole] of [
      ['a.json', '{"title":"a whole task","description":"both halves"}'],
      ['b.md', '# a whole task\n\nboth halves'],
    ] as const) {
      team.heldAt = clock.mono()
      await foreign(
        `const fs = require('fs'); const [path, text] = process.argv.slice(1); const half = Math.floor(text.length / 2)
         fs.writeFileSync(path, ''); fs.appendFileSync(path, text.slice(0, half))
         setTimeout(() => fs.appendFileSync(path, text.slice(half)), 300)`,
        [at(name), whole],
      ).done
      team.heldAt = null
      await folder.settled()
    }
    expect(['1', '2'].map(id => store.tasks.get(id)?.value.description)).toEqual([
      'both halves',
      '# a whole task\n\nboth halves',
    ])
    expect(team.problems).toEqual([])
    expect(team.submitted).toEqual(['a.json', 'b.md'])
  })

  test('a drop that nobody ever finishes is refused as it is', async () => {
    const folder = await team.start()
    writeFileSync(at('half.json'), '{"title":"x",\n "desc')
    await folder.settled()
    expect(team.problems[0]?.reason).toBe('line 2, column 7: not valid JSON: the text ends within a string')
  })

  test('B09 a drop with a byte order mark and CRLF is taken', async () => {
    const folder = await team.start()
    writeFileSync(at('a.json'), '\uFEFF{\r\n"title":"windows"\r\n}\r\n')
    await folder.settled()
    expect(title('1')).toBe('windows')
    expect(team.problems).toEqual([])
  })

  test('an atomic rename into the folder, spaces, quotes and other scripts in names are no trouble', async () => {
    const folder = await team.start()
    writeFileSync(join(root, 'tmp'), '{"title":"renamed"}')
    renameSync(join(root, 'tmp'), at(`日本 "x" it's.json`))
    await folder.settled()
    expect(title('1')).toBe('renamed')
  })

  test('a crash between taking a drop in and moving it away makes no twin', async () => {
    mkdirSync(dir)
    writeFileSync(at('task_7.json'), '{"title":"seven"}')
    writeFileSync(at('a.json'), '{"title":"a"}')
    let folder = await team.start()
    await folder.settled()
    expect(store.tasks.size).toBe(2)
    await team.stop()
    // As if the moves had not happened: rename keeps the inode and its times.
    for (const name of ['task_7.json', 'a.json']) renameSync(join(dir, 'dropped', name), at(name))
    folder = await team.start()
    await folder.settled()
    expect(store.tasks.size).toBe(2)
    expect(file('7')).toMatchObject({ v: 1, title: 'seven' })
    expect(readdirSync(join(dir, 'dropped')).sort()).toEqual(['a.json', 'task_7.json'])
    expect(team.problems).toEqual([])
    // A new copy of the same text is a new task.
    copyFileSync(join(dir, 'dropped', 'a.json'), at('a.json'))
    await folder.settled()
    expect(store.tasks.size).toBe(3)
  })

  test('B11 a file under an id that is taken is refused, and the id is not given again', async () => {
    const folder = await team.start()
    for (const name of ['a', 'b']) writeFileSync(at(`${name}.json`), `{"title":"${name}"}`)
    await folder.settled()
    end('1', 'cancelled')
    await folder.settled()
    writeFileSync(at('c.json'), '{"id":1,"title":"c"}')
    await folder.settled()
    expect(team.problems[0]?.reason).toBe('id 1 is taken')
    rmSync(at('task_1.json'))
    writeFileSync(at('c.json'), '{"title":"c"}')
    await folder.settled()
    expect(title('3')).toBe('c')
    expect(file('1').title).toBe('a')
  })

  test("side files, READMEs and a person's own folders are left alone without a word; a named pipe is never opened", async () => {
    const folder = await team.start()
    for (const name of ['README.md', '.a.json.swp', 'a.json~', '#a.json#', '4913']) writeFileSync(at(name), '{')
    mkdirSync(at('later'))
    mkdirSync(at('dropped'), { recursive: true })
    symlinkSync('later', at('later-too'))
    await folder.settled()
    expect(team.problems).toEqual([])
    await foreign(`require('child_process').execFileSync('mkfifo', [process.argv[1]])`, [at('pipe.json')]).done
    await folder.settled()
    expect(reasons()).toEqual([['.tasks/pipe.json', 'not a file that can be read: take it out']])
    expect(store.tasks.size).toBe(0)
  })

  test('a file with an ending that is not read, and a folder named like a drop, are told once, until they go', async () => {
    let folder = await team.start()
    for (const name of ['task.txt', 'plan.yml.txt', 'idea.markdown', 'notes']) writeFileSync(at(name), 'title: x')
    mkdirSync(at('x.md'))
    await folder.settled()
    await folder.settled()
    expect(reasons().map(([name, reason]) => [name, /rename it to (\S+),|a folder/.exec(reason)?.slice(-2)])).toEqual([
      ['.tasks/idea.markdown', [expect.anything(), 'idea.md']],
      ['.tasks/notes', [expect.anything(), 'notes.md']],
      ['.tasks/plan.yml.txt', [expect.anything(), 'plan.yml']],
      ['.tasks/task.txt', [expect.anything(), 'task.md']],
      ['.tasks/x.md', ['a folder', undefined]],
    ])
    expect(team.problems).toHaveLength(5)
    // Neither a new text nor another run tells it again.
    writeFileSync(at('task.txt'), 'another')
    await folder.settled()
    await team.stop()
    folder = await team.start()
    await folder.settled()
    expect(team.problems.filter(problem => !problem.known)).toHaveLength(5)
    renameSync(at('plan.yml.txt'), at('plan.yml'))
    for (const name of ['task.txt', 'idea.markdown', 'notes', 'x.md']) rmSync(at(name), { recursive: true })
    await folder.settled()
    expect(folder.problems()).toEqual([])
    expect(team.mended.filter(name => name !== '.tasks/plan.yml')).toHaveLength(5)
    expect(title('1')).toBe('x')
    expect(readdirSync(dir).filter(name => name.endsWith('.error.txt'))).toEqual([])
  })

  test('a link is read when it ends in the team root or the workspace; others are refused with why, and none loops', async () => {
    const folder = await team.start()
    mkdirSync(join(root, 'notes'))
    writeFileSync(join(root, 'notes', 'inside.json'), '{"title":"inside"}')
    const other = tempRoot()
    writeFileSync(join(other.root, 'outside.json'), '{"title":"outside"}')
    symlinkSync('../notes/inside.json', at('inside.json'))
    symlinkSync(join(other.root, 'outside.json'), at('outside.json'))
    symlinkSync('outside.json', at('twice.json'))
    symlinkSync(workspace, at('way'))
    writeFileSync(join(workspace, 'work.md'), '# work')
    symlinkSync('way/work.md', at('work.md'))
    symlinkSync('../nowhere.json', at('dangling.json'))
    symlinkSync('ring-b.json', at('ring-a.json'))
    symlinkSync('ring-a.json', at('ring-b.json'))
    symlinkSync('.', at('all.json'))
    await folder.settled()
    await folder.settled()
    expect(Array.from(store.tasks.list(), ([, { value }]) => value.title).sort()).toEqual(['inside', 'work'])
    expect(readFileSync(join(dir, 'dropped', 'inside.json'), 'utf8')).toBe('{"title":"inside"}')
    expect([existsSync(at('inside.json')), existsSync(join(root, 'notes', 'inside.json'))]).toEqual([false, true])
    expect(Object.fromEntries(reasons())).toEqual({
      '.tasks/all.json': expect.stringContaining('a folder'),
      '.tasks/dangling.json': expect.stringContaining('a link to ../nowhere.json, which is not there'),
      '.tasks/outside.json': expect.stringContaining('outside the team root and the workspace'),
      '.tasks/ring-a.json': expect.stringContaining('back to itself'),
      '.tasks/ring-b.json': expect.stringContaining('back to itself'),
      '.tasks/twice.json': expect.stringContaining('outside the team root and the workspace'),
    })
    expect(readFileSync(at('outside.json.error.txt'), 'utf8')).toContain('outside the team root')
    expect(team.problems).toHaveLength(6)
    // What it leads to comes into being: the link is read.
    writeFileSync(join(root, 'nowhere.json'), '{"title":"late"}')
    await folder.settled()
    expect(team.mended).toContain('.tasks/dangling.json')
    expect(title('3')).toBe('late')
    other.remove()
  })

  test('what was told of a folder as a drop is over once a task has that name: the way is then blocked, until the folder goes', async () => {
    const folder = await team.start()
    mkdirSync(at('task_5.json'))
    await folder.settled()
    expect(reasons()).toEqual([['.tasks/task_5.json', expect.stringContaining('a folder')]])
    add('5')
    await until('the blocked way', () => folder.problems().some(problem => problem.kind === 'blocked'))
    await until('the drop to be over', () => team.mended.includes('.tasks/task_5.json'))
    expect(folder.problems().map(problem => problem.kind)).toEqual(['blocked'])
    rmSync(at('task_5.json'), { recursive: true })
    await until(
      'the file',
      () => existsSync(at('task_5.json')) && file('5').title === 'task 5' && folder.problems().length === 0,
    )
  })

  test("a link in the place of a task's file is no edit: it is removed, told once, and leads to what it led to", async () => {
    add('5')
    const folder = await team.start()
    await folder.projected()
    const mine = join(root, 'mine.json')
    for (const to of ['../mine.json', '../nowhere.json', 'task_5.json', '.']) {
      writeFileSync(mine, '{"id":"5","title":"mine"}')
      team.problems.length = 0
      rmSync(at('task_5.json'))
      symlinkSync(to, at('task_5.json'))
      await folder.settled()
      await folder.settled()
      expect(team.problems.map(each => [each.file, each.reason])).toEqual([
        ['.tasks/task_5.json', expect.stringContaining(`a link to ${to} stood in the place of the file of task 5`)],
      ])
      expect([lstatSync(at('task_5.json')).isFile(), file('5').title]).toEqual([true, 'task 5'])
      expect(readFileSync(mine, 'utf8')).toBe('{"id":"5","title":"mine"}')
    }
    expect([team.edits, folder.problems()]).toEqual([[], []])
  })

  test("a pipe or a socket in the place of a task's file is told once, and the file put back; a folder is told until it goes", async () => {
    add('5')
    const folder = await team.start()
    await folder.projected()
    const name = '.tasks/task_5.json'
    const make = {
      pipe: `require('child_process').execFileSync('mkfifo', [process.argv[1]])`,
      socket: `require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))`,
    }
    for (const [what, script] of Object.entries(make)) {
      team.problems.length = 0
      // Renamed into place: there is no moment without a file.
      await foreign(script, [join(root, what)]).done.catch(() => undefined)
      renameSync(join(root, what), at('task_5.json'))
      await folder.settled()
      await folder.settled()
      expect(team.problems.map(each => [each.file, each.reason])).toEqual([
        [name, expect.stringContaining(`a ${what} stood in the place of the file of task 5, and was removed`)],
      ])
      expect([lstatSync(at('task_5.json')).isFile(), file('5').title]).toEqual([true, 'task 5'])
    }
    team.problems.length = 0
    rmSync(at('task_5.json'))
    mkdirSync(at('task_5.json'))
    writeFileSync(join(at('task_5.json'), 'mine'), 'mine')
    await folder.settled()
    change('5', { title: 'meanwhile' })
    await folder.settled()
    await folder.settled()
    const told = [[name, expect.stringContaining('a folder stands in the place of the file of task 5: move it away')]]
    expect(team.problems.map(each => [each.file, each.reason])).toEqual(told)
    expect(reasons()).toEqual(told)
    expect(readFileSync(join(at('task_5.json'), 'mine'), 'utf8')).toBe('mine')
    renameSync(at('task_5.json'), at('mine.old'))
    await until('the file', () => existsSync(at('task_5.json')) && file('5').title === 'meanwhile')
    await folder.settled()
    expect([folder.problems(), team.mended]).toEqual([[], [name]])
  })

  test('a folder and a pipe that are named like the file of a task do not keep the folder from starting without run state', async () => {
    mkdirSync(at('task_5.json'), { recursive: true })
    await foreign(`require('child_process').execFileSync('mkfifo', [process.argv[1]])`, [at('task_6.json')]).done
    const folder = await team.start()
    await folder.settled()
    expect(reasons()).toEqual([
      ['.tasks/task_5.json', expect.stringContaining('a folder')],
      ['.tasks/task_6.json', 'not a file that can be read: take it out'],
    ])
  })

  test('a file moved back from dropped/ adds nothing: it is told once with what to do, and a copy is a new task', async () => {
    const folder = await team.start()
    writeFileSync(at('a.json'), '{"title":"a"}')
    await folder.settled()
    for (let round = 1; round <= 2; round++) {
      renameSync(join(dir, 'dropped', 'a.json'), at('a.json'))
      await folder.settled()
      await folder.settled()
      expect(team.problems.map(each => [each.file, each.reason])).toEqual(
        Array(round).fill(['.tasks/a.json', expect.stringMatching(/^taken in before as task 1, so nothing is added/)]),
      )
      expect([existsSync(at('a.json')), existsSync(join(dir, 'dropped', 'a.json'))]).toEqual([false, true])
    }
    expect([store.tasks.size, folder.problems()]).toEqual([1, []])
    copyFileSync(join(dir, 'dropped', 'a.json'), at('a.json'))
    await folder.settled()
    expect([store.tasks.size, team.problems.length]).toEqual([2, 2])
  })

  test('the same link again is another drop', async () => {
    const folder = await team.start()
    writeFileSync(join(root, 'one.json'), '{"title":"one"}')
    for (let round = 1; round <= 2; round++) {
      symlinkSync('../one.json', at('one.json'))
      await folder.settled()
      expect(store.tasks.size).toBe(round)
    }
  })
})

test('a link to itself, a name too long for a note and a blocked archive of drops stop nothing else', async () => {
  const folder = await team.start()
  symlinkSync(at('loop.json'), at('loop.json'))
  const long = `${'n'.repeat(248)}.json`
  writeFileSync(at(long), '{"titel":1}')
  // Nothing can be moved to a folder that is a file, as root neither.
  writeFileSync(at('dropped'), '')
  writeFileSync(at('a.json'), '{"title":"a"}')
  writeFileSync(at('z.json'), '{"titel":"z"}')
  await folder.settled()
  await folder.settled()
  expect(store.tasks.size).toBe(1)
  expect(existsSync(at('z.json.error.txt'))).toBe(true)
  expect(
    folder
      .problems()
      .map(problem => [problem.kind, problem.file.slice(0, 12)])
      .sort(),
  ).toEqual([
    ['drop', '.tasks/loop.'],
    ['drop', '.tasks/nnnnn'],
    ['drop', '.tasks/z.jso'],
    ['io', '.tasks/a.jso'],
    ['io', '.tasks/nnnnn'],
  ])
  expect(team.problems).toHaveLength(5)
  rmSync(at('dropped'))
  await folder.settled()
  expect(store.tasks.size).toBe(1)
  expect(readdirSync(at('dropped'))).toEqual(['a.json'])
  expect(team.mended).toContain('.tasks/a.json')
})

describe('hand edits', () => {
  test('title, description, priority, verify and cancel are adopted', async () => {
    add('1')
    const folder = await team.start()
    await folder.projected()
    rewrite('1', { title: 'new', description: 'text', priority: 5, verify: 'npm test' })
    await until('the edit', () => title('1') === 'new')
    await folder.settled()
    expect(file('1')).toMatchObject({ title: 'new', description: 'text', priority: 5, verify: 'npm test', rev: 2 })
    rewrite('1', { status: 'cancelled' })
    await folder.settled()
    expect(store.tasks.get('1')?.value.status).toBe('cancelled')
    expect(team.problems).toEqual([])
  })

  test('edges may be changed in dependsOn and in blockedBy', async () => {
    for (const id of ['1', '2', '3', '4']) add(id)
    const folder = await team.start()
    await folder.projected()
    rewrite('4', { dependsOn: ['1', 2] })
    await folder.settled()
    expect(file('4')).toMatchObject({ dependsOn: ['1', '2'], blockedBy: ['1', '2'] })
    rewrite('4', { blockedBy: ['2', '3'] })
    await folder.settled()
    expect(file('4')).toMatchObject({ dependsOn: ['2', '3'], blockedBy: ['2', '3'] })
    end('2')
    await folder.projected()
    rewrite('4', { blockedBy: [] })
    await folder.settled()
    expect(file('4')).toMatchObject({ dependsOn: ['2'], blockedBy: [] })
  })

  test('anything else is put back, the edit kept beside it, the reason told; what may be adopted is', async () => {
    add('1')
    const folder = await team.start()
    await folder.projected()
    rewrite('1', { title: 'new', owner: 'bob', status: 'completed', nots: 'x', priority: 'high' })
    await folder.settled()
    expect(file('1')).toMatchObject({ title: 'new', owner: null, status: 'pending', priority: 0 })
    expect(rejected('1')).toHaveLength(1)
    expect(json(at(rejected('1')[0] ?? ''))).toMatchObject({ owner: 'bob' })
    expect(team.problems).toHaveLength(1)
    const reason = team.problems[0]?.reason ?? ''
    for (const part of [
      'owner: changed, but only the supervisor sets it',
      'status: "completed" is not for a hand to set, only "cancelled"',
      'nots: unknown key',
      'priority: expected number, received string',
    ])
      expect(reason).toContain(part)
  })

  test('B01 a cycle made by editing files is refused with the cycle spelled out, and the edge is put back', async () => {
    add('1')
    add('2', { dependsOn: ['1'] })
    add('3', { dependsOn: ['2'] })
    const folder = await team.start()
    await folder.projected()
    rewrite('1', { blockedBy: ['3'] })
    rewrite('2', { dependsOn: ['1', '2'] })
    await folder.settled()
    expect(team.problems.map(problem => problem.reason.replace(/ \(.*/, ''))).toEqual([
      'task 1 would wait for itself: 1 → 3 → 2 → 1',
      'task 2 would wait for itself: 2 → 2',
    ])
    expect(file('1')).toMatchObject({ dependsOn: [], blockedBy: [] })
    expect(file('2')).toMatchObject({ dependsOn: ['1'] })
    const seq = store.seq
    await folder.settled()
    expect(store.seq).toBe(seq)
  })

  test('only spaces or the order of keys changed: nothing happens, and the person keeps the layout', async () => {
    add('1')
    const folder = await team.start()
    await folder.projected()
    const text = JSON.stringify(Object.fromEntries(Object.entries(file('1')).reverse()))
    writeFileSync(at('task_1.json'), text)
    utimesSync(at('task_1.json'), 1, 1)
    await folder.settled()
    expect(readFileSync(at('task_1.json'), 'utf8')).toBe(text)
    expect(team.edits).toEqual([])
    expect(team.problems).toEqual([])
  })

  test('whoever saves again and again from the text opened once means the last save, and other edits keep theirs', async () => {
    add('1')
    const folder = await team.start()
    await folder.projected()
    const opened = file('1')
    for (const change of [{ title: 'a' }, { title: 'b', priority: 3 }, { title: 'c', priority: 3 }, { priority: 4 }]) {
      writeFileSync(at('task_1.json'), JSON.stringify({ ...opened, ...change }))
      await folder.settled()
    }
    expect(file('1')).toMatchObject({ title: 'c', priority: 4 })
    expect(team.problems).toEqual([])
  })

  test('an edit that was put back stands as a problem until its copy is removed', async () => {
    add('1')
    const folder = await team.start()
    await folder.projected()
    rewrite('1', { owner: 'bob' })
    await folder.settled()
    await folder.settled()
    expect(folder.problems().map(problem => problem.reason)).toEqual([expect.stringContaining('owner: changed')])
    for (const name of rejected('1')) rmSync(at(name))
    await folder.settled()
    expect(folder.problems()).toEqual([])
  })

  test('an edit of an older revision is compared with what that one showed', async () => {
    add('1')
    const folder = await team.start()
    await folder.projected()
    const opened = file('1')
    change('1', { status: 'in_progress', owner: 'bob', title: 'moved on' })
    await folder.projected()
    writeFileSync(at('task_1.json'), JSON.stringify({ ...opened, description: 'late' }))
    await folder.settled()
    expect(store.tasks.get('1')?.value).toMatchObject({ description: 'late', owner: 'bob', status: 'in_progress' })
    expect(team.problems).toEqual([])
    writeFileSync(at('task_1.json'), JSON.stringify({ ...opened, title: 'mine' }))
    await folder.settled()
    expect(file('1').title).toBe('moved on')
    expect(team.problems[0]?.reason).toContain('title: changed here and meanwhile in the task too')
  })

  test('an edit of a text opened many revisions ago is compared with what that one showed, from the journal', async () => {
    add('1')
    const folder = await team.start()
    await folder.projected()
    const opened = file('1')
    for (let i = 1; i <= 8; i++) {
      change('1', { attempts: i })
      await folder.projected()
    }
    writeFileSync(at('task_1.json'), JSON.stringify({ ...opened, title: 'late' }))
    await folder.settled()
    expect(file('1')).toMatchObject({ title: 'late', attempts: 8 })
    expect(team.problems).toEqual([])
  })

  test('an edit taken in before a crash, and one more from the same text after it: the last one stands', async () => {
    add('1')
    let folder = await team.start()
    await folder.projected()
    const opened = file('1')
    await folder.close()
    // As a crash leaves it: adopted, and not written back.
    change('1', { title: 'first' })
    writeFileSync(at('task_1.json'), JSON.stringify({ ...opened, title: 'first' }))
    folder = await team.start()
    writeFileSync(at('task_1.json'), JSON.stringify({ ...opened, title: 'second' }))
    await folder.settled()
    expect(file('1').title).toBe('second')
    expect(team.problems).toEqual([])
  })

  test('an edit that meets a change of the record is looked at before the file is written over', async () => {
    add('1')
    const folder = await team.start()
    await folder.projected()
    rewrite('1', { description: 'by hand' })
    change('1', { owner: 'bob', status: 'in_progress' })
    await folder.settled()
    expect(file('1')).toMatchObject({ description: 'by hand', owner: 'bob' })
    expect(team.problems).toEqual([])
  })

  test('a save in place into the file that was written over just before is a hand edit like any other', async () => {
    add('1')
    add('2')
    const folder = await team.start()
    await folder.projected()
    const [opened, other] = [file('1'), file('2')]
    const editor = openSync(at('task_1.json'), 'r+')
    const second = openSync(at('task_2.json'), 'r+')
    change('1', { owner: 'bob', status: 'in_progress' })
    change('2', { tags: ['moved on'] })
    await folder.projected()
    // In two halves, as a slow editor writes it.
    team.heldAt = clock.mono()
    const text = JSON.stringify({ ...opened, description: 'by hand' })
    ftruncateSync(editor)
    writeSync(editor, text.slice(0, 60))
    writeSync(second, JSON.stringify({ ...other, title: 'by hand', owner: 'mallory' }))
    ftruncateSync(second, JSON.stringify({ ...other, title: 'by hand', owner: 'mallory' }).length)
    await sleep(300)
    writeSync(editor, text.slice(60))
    closeSync(editor)
    closeSync(second)
    team.heldAt = null
    await until('the edits', () => file('1').description === 'by hand' && file('2').title === 'by hand')
    expect(file('1')).toMatchObject({ owner: 'bob', status: 'in_progress', rev: 3 })
    expect(rejected('1')).toEqual([])
    expect(json(at(rejected('2')[0] ?? ''))).toMatchObject({ owner: 'mallory' })
    expect(team.problems.map(problem => problem.reason)).toEqual([
      expect.stringContaining('owner: changed, but only the supervisor sets it'),
    ])
  })

  test('what was saved into a file that was written over just before the end is taken in at the end; what was emptied is not', async () => {
    add('1')
    add('2')
    const folder = await team.start()
    await folder.projected()
    const opened = file('1')
    const [editor, emptied] = [openSync(at('task_1.json'), 'r+'), openSync(at('task_2.json'), 'r+')]
    for (const id of ['1', '2']) change(id, { tags: ['moved on'] })
    await folder.projected()
    ftruncateSync(emptied)
    ftruncateSync(editor)
    writeSync(editor, JSON.stringify({ ...opened, title: 'by hand' }))
    await team.stop()
    expect(store.tasks.get('1')?.value).toMatchObject({ title: 'by hand', tags: ['moved on'] })
    expect(title('2')).toBe('task 2')
    expect(team.problems).toEqual([])
    closeSync(editor)
    closeSync(emptied)
  })

  test('B07 a task file that is cut and rewritten in halves keeps its last good state and its owner', async () => {
    add('1', { owner: 'bob', status: 'in_progress' })
    const folder = await team.start()
    await folder.projected()
    for (let round = 0; round < 2; round++) {
      const whole = JSON.stringify({ ...file('1'), description: `round ${round}` })
      team.heldAt = clock.mono()
      if (round === 1) truncateSync(at('task_1.json'))
      else writeFileSync(at('task_1.json'), '')
      appendFileSync(at('task_1.json'), whole.slice(0, 60))
      // The record moves on while the file is half written: the half is not written over.
      change('1', { tags: [`tag ${round}`] })
      await sleep(300)
      expect(store.tasks.get('1')?.value.owner).toBe('bob')
      appendFileSync(at('task_1.json'), whole.slice(60))
      team.heldAt = null
      await folder.settled()
      expect(file('1')).toMatchObject({ description: `round ${round}`, tags: [`tag ${round}`], owner: 'bob' })
    }
    expect(team.problems).toEqual([])
  })

  test('a task file that stays torn is put back, and the torn text kept', async () => {
    add('1')
    const folder = await team.start()
    await folder.projected()
    writeFileSync(at('task_1.json'), '{"id": "1", oops')
    await folder.settled()
    expect(file('1').title).toBe('task 1')
    expect(readFileSync(at(rejected('1')[0] ?? ''), 'utf8')).toBe('{"id": "1", oops')
    expect(team.problems[0]?.reason).toContain('line 1, column 13')
  })

  test('a deleted file is put back and told; the whole folder too, in one word', async () => {
    for (const id of ['1', '2', '3']) add(id)
    const folder = await team.start()
    await folder.projected()
    rmSync(at('task_1.json'))
    await until('the file is back', () => existsSync(at('task_1.json')))
    expect(team.problems.map(problem => [problem.kind, problem.file])).toEqual([['deleted', '.tasks/task_1.json']])
    rmSync(dir, { recursive: true })
    await until('all are back', () => ['1', '2', '3'].every(id => existsSync(at(`task_${id}.json`))))
    writeFileSync(at('a.json'), '{"title":"still heard"}')
    await until('a drop in the new folder', () => existsSync(at('task_4.json')))
    await folder.settled()
    expect(team.problems.slice(1).map(problem => problem.reason.replace(/:.*/, ''))).toEqual([
      '3 task files deleted, and put back',
    ])
  })

  test('a file that another program rewrote in its own form changes only what it says', async () => {
    add('1', { priority: 3, file: 'task_1.json' })
    const folder = await team.start()
    await folder.projected()
    writeFileSync(at('task_1.json'), '{"id":1,"title":"theirs","status":"pending","blockedBy":[],"createdAt":5}')
    await folder.settled()
    expect(file('1')).toMatchObject({ title: 'theirs', priority: 3, rev: 2 })
    expect(team.problems).toEqual([])
  })
})

describe('archive', () => {
  test('the oldest ended tasks past the limit move away, none that an open task waits for directly', async () => {
    for (let i = 1; i <= 8; i++) add(String(i), i === 8 ? { dependsOn: ['1'] } : {})
    const folder = await team.start(2)
    for (let i = 1; i <= 6; i++) {
      end(String(i))
      await sleep(2)
    }
    await folder.settled()
    expect(readdirSync(join(dir, 'archive')).sort()).toEqual(['2', '3', '4', '5'].map(id => `task_${id}.json`))
    expect(json(join(dir, 'archive', 'task_2.json'))).toMatchObject({ status: 'completed' })
    expect([folder.archived('2'), folder.archived('1'), folder.archivedCount]).toEqual([true, false, 4])
    expect(team.problems).toEqual([])
    await team.stop()
    const again = await team.start(2)
    await again.settled()
    expect(
      readdirSync(dir)
        .filter(name => name.startsWith('task_'))
        .sort(),
    ).toEqual(['1', '6', '7', '8'].map(id => `task_${id}.json`))
    // A retried task comes back.
    change('3', { status: 'pending', completedAt: null })
    await again.settled()
    expect(file('3').status).toBe('pending')
    expect(existsSync(join(dir, 'archive', 'task_3.json'))).toBe(false)
  })
})

test('with the run state gone, tasks come back from their files, and what was under way starts again', async () => {
  add('1', { status: 'completed', completedAt: now() })
  add('2', { status: 'in_progress', owner: 'bob', dependsOn: ['1'] })
  add('3', { status: 'completed', completedAt: now() })
  await (await team.start(1)).settled()
  await team.stop()
  expect(readdirSync(join(dir, 'archive'))).toHaveLength(1)
  store = openMemoryStore(clock)
  team = new Team()
  await team.start(1)
  await team.folder?.settled()
  expect([...store.tasks.list()].map(([id, { value }]) => [id, value.status, value.owner])).toEqual([
    ['1', 'completed', null],
    ['2', 'pending', null],
    ['3', 'completed', null],
  ])
  expect(file('2')).toMatchObject({ rev: 1, status: 'pending', owner: null })
  expect(team.problems).toEqual([])
})
