// A holder with its folders, for tests that kill it. Argument: the root, and `run` (sends mail to alice until it is
// killed, saying what is durable) or `settle` (takes everything in, says what there is, and ends).
import { writeSync } from 'node:fs'
import { clock, delay, iso } from '../../src/lib/clock.ts'
import { ok, unwrap } from '../../src/lib/result.ts'
import { InboxFolder } from '../../src/store/files/inbox-folder.ts'
import type { Problem } from '../../src/store/files/problem.ts'
import { TasksFolder } from '../../src/store/files/tasks-folder.ts'
import { hold } from '../../src/store/index.ts'
import { Tasks } from '../../src/supervisor/tasks.ts'

const [root = '', mode = ''] = process.argv.slice(2)
const say = (value: object) => writeSync(1, `${JSON.stringify(value)}\n`)
const problems: Problem[] = []
const fail = (error: unknown) => {
  throw error
}

const holder = unwrap(await hold(root, 'daemon', { version: 'test', clock }))
const { store } = holder
const tasks = new Tasks(store, clock)
tasks.recover()
const common = { root, store, clock, onProblem: (problem: Problem) => problems.push(problem), onFailure: fail }
const tasksFolder = new TasksFolder({
  ...common,
  blockedBy: task => tasks.graph.blockedBy(task),
  onDrop: async (drops, { file, key }) => {
    const added = tasks.add(drops, { by: 'human', file, key })
    if (!added.ok) return added
    await added.value.durable
    return ok({ ids: added.value.ids, isKnown: added.value.isKnown === true })
  },
  onEdit: (id, edit) => tasks.edit(id, edit, 'human'),
  limits: { archiveAfter: 500 },
})
const inboxFolder = new InboxFolder({
  ...common,
  names: ['alice'],
  limits: { messageBytes: 262_144, inboxBytes: 1_048_576 },
  onTask: () => {},
})
await tasksFolder.start()
await inboxFolder.start()
say({ ready: true })

const alice = store.inbox('alice')
if (mode === 'run')
  for (let n = alice.last; ; n++) {
    const id = `msg_own-${process.pid}-${n}`
    const message = { id, from: 'bob', to: 'alice', timestamp: iso(clock.wall()), type: 'info', content: id } as const
    const write = alice.append({ message, origin: 'daemon' }, { event: 'message.stored', by: 'bob' })
    void write.durable.then(() => say({ sent: id }))
    await delay(1)
  }

await tasksFolder.settled()
await inboxFolder.settled()
say({
  contents: alice.read(0).map(entry => entry.value.message.content),
  tasks: [...store.tasks.list()].map(([, { value }]) => value.title),
  deadLetters: store.deadLetters.read(0).map(entry => entry.value),
  problems,
})
await tasksFolder.close()
await inboxFolder.close()
await holder.release()
