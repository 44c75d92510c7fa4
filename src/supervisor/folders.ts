import { createHash } from 'node:crypto'
import { ok } from '../lib/result.ts'
import type { Stored } from '../protocol/message.ts'
import { InboxFolder } from '../store/files/inbox-folder.ts'
import type { Problem } from '../store/files/problem.ts'
import { RequestsFolder } from '../store/files/requests-folder.ts'
import { TasksFolder } from '../store/files/tasks-folder.ts'
import type { Core } from './core.ts'
import { Scribe } from './scribe.ts'

export interface FoldersOptions {
  /** A foreign line of type `task`; told again after some crashes. */
  readonly onTaskMessage: (stored: Stored) => void
  /** A folder cannot go on: a bug, or the journal failed. */
  readonly onFailure: (error: unknown) => void
  /** The built file of scribe-main.ts; without it the files are written in this thread. */
  readonly scribeEntry?: string | undefined
}

/**
 * The three folders that people read and write, tied to the acts on the core: what is dropped is added, what is edited by hand
 * is checked and adopted, what is wrong stands in the status and is told the human once.
 */
export class Folders {
  readonly #core: Core
  readonly #tasks: TasksFolder
  readonly #inboxes: InboxFolder
  readonly #requests: RequestsFolder
  readonly #scribe: Scribe | null
  readonly #standing = new Map<string, string>()
  #unwatch: (() => void) | undefined

  constructor(core: Core, o: FoldersOptions) {
    this.#core = core
    const scribe = o.scribeEntry === undefined ? null : new Scribe(o.scribeEntry)
    this.#scribe = scribe
    const { root, store, clock, config, tasks } = core
    const common = {
      root,
      store,
      clock,
      limits: config.limits,
      onProblem: (problem: Problem) => this.#report(problem),
      onMended: (file: string) => void this.#standing.delete(file),
      onFailure: o.onFailure,
    }
    this.#tasks = new TasksFolder({
      ...common,
      workspace: core.workspace,
      write: scribe ? pages => scribe.write(pages) : undefined,
      blockedBy: task => tasks.graph.blockedBy(task),
      onDrop: async (drops, from) => {
        const added = tasks.add(drops, { by: 'human', ...from })
        if (!added.ok) return added
        await added.value.durable
        const { ids, isKnown = false } = added.value
        return ok({ ids, isKnown })
      },
      onEdit: async (id, edit) => {
        const edited = tasks.edit(id, edit, 'human')
        if (edited.ok) await edited.value.durable
        return edited
      },
    })
    this.#inboxes = new InboxFolder({ ...common, names: core.mail.inboxes, onTask: o.onTaskMessage })
    this.#requests = new RequestsFolder(common)
  }

  /** Brings files and records in line, and watches from then on. */
  async start(): Promise<void> {
    const { tasks, store } = this.#core
    // A dependency that moved changes what its dependants' files show as blockedBy, and nothing else of them.
    this.#unwatch = store.tasks.watch((id, rec, old) => {
      if ((old?.value.status === 'completed') !== (rec.value.status === 'completed'))
        for (const other of tasks.graph.dependants(id)) this.#tasks.touch(other, true)
    })
    const { imported } = await this.#tasks.start()
    await this.#inboxes.start()
    await this.#requests.start()
    if (imported.length > 0) this.#tellLoss(imported.length)
  }

  /** The inbox of somebody who joined, or who left, while this runs. */
  join(name: string): Promise<void> {
    return this.#inboxes.join(name)
  }

  leave(name: string): Promise<void> {
    return this.#inboxes.leave(name)
  }

  /** Resolves when everything seen so far is taken in, and everything decided so far is in the files. */
  async settled(): Promise<void> {
    await this.#tasks.settled()
    await this.#inboxes.settled()
    await this.#requests.settled()
  }

  async close(): Promise<void> {
    this.#unwatch?.()
    await this.#tasks.close()
    await this.#inboxes.close()
    await this.#requests.close()
    await this.#scribe?.close()
  }

  /** What stands wrong now, a line each. */
  problems(): string[] {
    return [
      ...new Set([...this.#standing.values(), ...[...this.#tasks.problems(), ...this.#inboxes.problems()].map(line)]),
    ]
  }

  archivedCount(): number {
    return this.#tasks.archivedCount
  }

  /** No journal was there, and tasks were: what is not in the files of people is gone, which they are told. */
  #tellLoss(tasks: number): void {
    const { store, mail, clock } = this.#core
    const text = `the run state was lost: no journal was in .team. ${tasks === 1 ? 'A task was' : `${tasks} tasks were`} taken in from .tasks, and mail from .messages`
    store.note({ event: 'warning', by: 'supervisor', info: { text } })
    const rest =
      'What was in hand starts again, what waited for a decision was withdrawn. Counts, leases, sessions and what you had permitted are gone; where .team/hub.git is gone too, so is what was merged and not landed, but for what the clones still have (refs/heads/team/ in team/<name>/repo).'
    const id = `msg_lost_${clock.wall()}`
    mail.send({ from: 'supervisor', to: 'user', id, type: 'system', content: `${text}. ${rest}` })
  }

  #report(problem: Problem): void {
    const { store, mail } = this.#core
    if (problem.standing) this.#standing.set(problem.file, line(problem))
    if (problem.known) return
    const text = line(problem)
    // Drops, edits and dead letters are in the journal by the folders' own words.
    if (problem.kind === 'inbox' || problem.kind === 'io' || problem.kind === 'blocked')
      store.note({ event: 'warning', by: 'supervisor', info: { file: problem.file, text } })
    if (problem.kind === 'letter' || problem.kind === 'io') return
    // The id derives from what is said and when the file was at fault, so that a crash in between says it once. An inbox of
    // nobody, or a folder in the place of a file, is at fault for as long as it is there, over restarts too.
    const when = problem.kind === 'inbox' || problem.kind === 'blocked' ? 0 : store.seq
    const id = `msg_${createHash('sha256').update(`${when}\n${text}`).digest('hex').slice(0, 24)}`
    mail.send({ from: 'supervisor', to: 'user', id, type: 'system', content: text.slice(0, 4000) })
  }
}

const line = (problem: Problem): string => `${problem.file}: ${problem.reason}`
