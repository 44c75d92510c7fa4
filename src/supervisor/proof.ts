import { reach } from '../lib/points.ts'
import type { Why } from '../protocol/event.ts'
import type { Task } from '../protocol/task.ts'
import type { Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'
import { type Core, deciderOf, verifyCommands } from './core.ts'
import { checkIn, checkTree, type Gate } from './tree.ts'
import { type Check, folderView } from './verify.ts'

/**
 * Leads a claim to its proof, or back. What is to be done next follows from the records alone, so it may be asked at any time
 * and after any crash:
 *
 *   claimed, nothing to merge (or dir mode) ──▶ verify ──green──▶ completed     ──red──▶ sent back
 *   claimed, no request for this head       ──▶ open the merge request
 *   request waits, approvals say auto       ──▶ approve
 *   request approved                        ──▶ preview, verify the merged tree, move the trunk ──▶ completed
 *   request rejected                        ──▶ sent back with the reason
 *   request expired, withdrawn              ──▶ sent back
 *
 * One merge at a time, first approved first served.
 */
export class Proof {
  readonly #core: Core
  readonly #gate: Gate
  readonly #hidden: readonly string[]
  readonly #signal: AbortSignal
  readonly #busy = new Map<string, Promise<void>>()
  #lane: Promise<void> = Promise.resolve()
  #problem: (text: string) => void

  constructor(o: {
    core: Core
    shell: (view: View) => Shell
    /** Paths that a check in dir mode must not see. */
    hidden: readonly string[]
    signal: AbortSignal
    onProblem: (text: string) => void
  }) {
    this.#core = o.core
    this.#gate = o
    this.#hidden = o.hidden
    this.#signal = o.signal
    this.#problem = o.onProblem
  }

  /** Something is being verified or merged. */
  get busy(): boolean {
    return this.#busy.size > 0
  }

  isBusy(id: string): boolean {
    return this.#busy.has(id)
  }

  /** Resolves when what runs now has ended. */
  async settled(): Promise<void> {
    await Promise.all([...this.#busy.values(), this.#lane])
  }

  /** Runs `act` alone among everything that moves the trunk or reads it to build on it. */
  inLane<T>(act: () => Promise<T>): Promise<T> {
    const run = this.#lane.then(act)
    this.#lane = run.then(
      () => undefined,
      () => undefined,
    )
    return run
  }

  /**
   * Does for this task what its records call for; nothing when it is being done already. `done` is called after, with whether
   * the records moved on by it: where they did not, doing it again would come to the same.
   */
  advance(id: string, done: (moved: boolean) => void): void {
    const task = this.#core.tasks.get(id)?.value
    if (!task?.claimed || task.status !== 'in_progress' || this.#busy.has(id) || this.#signal.aborted) return
    const act = this.#next(task)
    if (!act) return
    const before = this.#stamp(id)
    const run = act()
      .catch(error => {
        if (!this.#signal.aborted)
          this.#problem(`task ${id}: its proof stopped: ${error instanceof Error ? error.message : String(error)}`)
      })
      .then(() => {
        this.#busy.delete(id)
        done(this.#stamp(id) !== before)
      })
    this.#busy.set(id, run)
  }

  /** The revisions of the records that decide what is next. */
  #stamp(id: string): string {
    const { tasks, requests } = this.#core
    const rec = tasks.get(id)
    const head = rec?.value.claimed?.head
    const request = rec && head ? requests.mergeOf(id, rec.value.attempts, head) : undefined
    return `${rec?.rev} ${request?.id} ${request && requests.get(request.id)?.rev}`
  }

  #next(task: Task): (() => Promise<void>) | null {
    const { hub, requests } = this.#core
    const head = task.claimed?.head ?? null
    if (!hub || head === null) return () => this.#verifyAlone(task)
    const request = requests.mergeOf(task.id, task.attempts, head)
    if (!request) return () => this.#openRequest(task, head)
    if (request.effect?.step === 'done' && request.effect.outcome === 'unknown') return null
    if (request.outcome === null) return request.to === 'supervisor' ? async () => this.#approve(request.id) : null
    if (request.status === 'approved' && request.outcome === 'decided')
      return () => this.inLane(() => this.#merge(task.id, request.id))
    const why =
      request.outcome === 'decided'
        ? `the merge was rejected by ${request.decidedBy}`
        : `the merge request ${request.outcome}`
    return async () => this.#sendBack(task.id, `${why}${request.reason === null ? '' : `: ${request.reason}`}`)
  }

  async #verifyAlone(task: Task): Promise<void> {
    const { tasks, hub, workspace } = this.#core
    const commands = verifyCommands(this.#core, task)
    const summary = task.claimed?.summary ?? ''
    if (commands.length === 0) {
      tasks.move(task.id, 'supervisor', { move: 'complete', result: { outcome: 'unverified', summary } })
      return
    }
    const view = () => folderView('verify', workspace, { hidden: this.#hidden })
    // In dir mode one at a time as well: two checks in one folder would be in each other's way.
    const result = await this.inLane(async () =>
      hub
        ? checkTree(this.#gate, { task: task.id }, await hub.trunk(), commands)
        : checkIn(this.#gate, { task: task.id }, await view(), commands),
    )
    // What was cancelled meanwhile (and perhaps started anew by now) is not proven by this, and not refuted either.
    if (this.#signal.aborted || tasks.get(task.id)?.value.claimed !== task.claimed) return
    if (result.couldNotRun) return this.#stuck(task, result)
    if (result.ok)
      tasks.move(
        task.id,
        'supervisor',
        { move: 'complete', result: { outcome: 'verified', summary } },
        { command: result.command, ms: Math.round(result.ms) },
      )
    else this.#sendBack(task.id, redText(result))
  }

  async #openRequest(task: Task, head: string): Promise<void> {
    const { hub, requests, tasks } = this.#core
    if (!hub) return
    const owner = task.owner ?? 'supervisor'
    const [trunk, brings] = await Promise.all([hub.trunk(), hub.brings(head)])
    if (!brings.ok) {
      this.#problem(`task ${task.id}: ${brings.fault.message}`)
      return
    }
    if (tasks.get(task.id)?.value.claimed?.head !== head) return
    const decider = deciderOf(this.#core, 'merge_request', owner)
    const commands = verifyCommands(this.#core, task)
    const opened = requests.open({
      type: 'merge_request',
      from: 'supervisor',
      to: decider,
      title: `merge task ${task.id}: ${task.title}`,
      body: [
        `${owner}: ${task.claimed?.summary || '(no summary)'}`,
        `${count(brings.value.commits, 'commit')}, ${count(brings.value.files.length, 'file')}; ${commands.length === 0 ? 'nothing verifies it' : `to be verified on the merged result by: ${commands.join(' && ')}`}`,
        `look: team diff ${task.id}`,
      ].join('\n'),
      data: {
        task: task.id,
        attempt: task.attempts,
        owner,
        branch: task.branch ?? '',
        head,
        trunk,
        commits: brings.value.commits,
        files: [...brings.value.files],
        verify: commands,
      },
    })
    if (!opened.ok) {
      this.#problem(`task ${task.id}: ${opened.fault.message}`)
      return
    }
  }

  /** Nobody is asked: so `approvals` says. */
  #approve(requestId: string): void {
    const approved = this.#core.requests.decide(requestId, 'supervisor', 'approve', 'approvals.merge_request is auto')
    if (!approved.ok) this.#problem(`${requestId}: ${approved.fault.message}`)
  }

  async #merge(taskId: string, requestId: string): Promise<void> {
    const { hub, requests, tasks, store } = this.#core
    const request = requests.get(requestId)?.value
    const task = tasks.get(taskId)?.value
    if (!hub || !task || request?.type !== 'merge_request') return
    const { head } = request.data
    const wanted = () => {
      const now = tasks.get(taskId)?.value
      return now?.status === 'in_progress' && now.claimed?.head === head
    }
    if (!wanted()) return this.#drop(requestId, taskId)
    if (request.effect === null) {
      const intent = requests.effect(requestId, 'intent')
      if (!intent.ok) return
      await intent.value.durable
    }
    const complete = (commit: string, trunk: string, detail: string) => {
      requests.effect(requestId, 'done', 'ok', detail)
      const moved = tasks.move(
        taskId,
        'supervisor',
        {
          move: 'complete',
          result: { outcome: verified ? 'merged' : 'unverified', summary: task.claimed?.summary ?? '', commit, trunk },
        },
        { commit, request: requestId },
      )
      if (!moved.ok)
        this.#problem(`the trunk took task ${taskId} in as ${commit.slice(0, 12)} just before: ${moved.fault.message}`)
    }
    const verified = verifyCommands(this.#core, task).length > 0
    for (let attempt = 0; attempt < 5; attempt++) {
      const onto = await hub.trunk()
      const preview = await hub.preview(head)
      if (!preview.ok) {
        if (preview.fault.code !== 'refused') return this.#abandon(requestId, preview.fault.message)
        requests.effect(requestId, 'done', 'returned', preview.fault.message)
        return this.#sendBack(
          taskId,
          `your branch cannot be merged: ${preview.fault.message}${preview.fault.hint === undefined ? '' : ` (${preview.fault.hint})`}`,
        )
      }
      if (!preview.value.clean) {
        requests.effect(requestId, 'done', 'returned', `conflict in ${preview.value.files.join(', ')}`)
        this.#sendBack(
          taskId,
          `your branch conflicts with the trunk in: ${preview.value.files.join(', ')}. Merge the trunk into your branch (git merge hub/trunk), settle it, commit, and complete the task again.\n${preview.value.messages.join('\n')}`.trimEnd(),
        )
        return
      }
      const result = await checkTree(this.#gate, { task: taskId }, preview.value.tree, verifyCommands(this.#core, task))
      if (this.#signal.aborted) return
      if (result.couldNotRun) {
        this.#stuck(task, result)
        requests.effect(requestId, 'done', 'unknown', `verify could not run: ${result.tail}`)
        return
      }
      if (!result.ok) {
        requests.effect(requestId, 'done', 'returned', `${result.command} exited ${result.exitCode}`)
        this.#sendBack(taskId, redText(result))
        return
      }
      // A crash after the trunk had moved, or the same commits under another task: the head is on it already.
      if (preview.value.upToDate) {
        const made = await hub.mergeOf(head)
        return complete((made.ok ? made.value : null) ?? onto, onto, 'the trunk holds it already')
      }
      if (!wanted()) return this.#drop(requestId, taskId)
      reach('effect.act')
      const merged = await hub.merge({
        head,
        tree: preview.value.tree,
        onto,
        message: `Merge task ${taskId}: ${task.title}\n\nOwner: ${request.data.owner}\nRequest: ${requestId}, approved by ${request.decidedBy}`,
      })
      reach('effect.acted')
      if (merged.ok) {
        this.#note({
          event: 'trunk.moved',
          by: 'supervisor',
          info: { task: taskId, from: onto, to: merged.value.commit },
        })
        complete(merged.value.commit, merged.value.commit, `trunk at ${merged.value.commit.slice(0, 12)}`)
        await store.flushed()
        return
      }
      if (merged.fault.code !== 'conflict') return this.#abandon(requestId, merged.fault.message)
    }
    this.#abandon(requestId, 'the trunk kept moving')
  }

  /** Back to the front of its owner's queue with the facts; failed when that happened too often. */
  #sendBack(id: string, reason: string): void {
    const { tasks, config } = this.#core
    const task = tasks.get(id)?.value
    if (!task?.claimed) return
    if (task.returns >= config.limits.returns)
      tasks.move(id, 'supervisor', {
        move: 'fail',
        reason: `sent back ${count(task.returns, 'time')} already (limits.returns); now: ${reason}`,
      })
    else tasks.move(id, 'supervisor', { move: 'return', reason })
  }

  /** A check that could not run is no green; it is not the owner's fault either, so a person is told. */
  #stuck(task: Task, result: Check): void {
    this.#core.tasks.move(task.id, 'supervisor', {
      move: 'fail',
      reason: `"${result.command}" could not run, so nothing proves the work: ${result.tail}`,
    })
    this.#problem(
      `task ${task.id}: "${result.command}" could not run: ${result.tail.split('\n')[0]}; mend that, then team task retry ${task.id}`,
    )
  }

  /** The task was cancelled after its merge had been approved. */
  #drop(requestId: string, taskId: string): void {
    const status = this.#core.tasks.get(taskId)?.value.status ?? 'gone'
    this.#core.requests.effect(requestId, 'done', 'failed', `nothing was merged: task ${taskId} is ${status}`)
  }

  #abandon(requestId: string, why: string): void {
    const request = this.#core.requests.get(requestId)?.value
    this.#core.requests.effect(requestId, 'done', 'failed', why)
    if (request?.type === 'merge_request') {
      this.#core.tasks.move(request.data.task, 'supervisor', { move: 'fail', reason: `the merge failed: ${why}` })
      this.#problem(
        `task ${request.data.task}: the merge failed: ${why} (to try again: team task retry ${request.data.task})`,
      )
    }
  }

  #note(why: Why): void {
    this.#core.store.note(why)
  }
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`

const redText = (result: Check): string =>
  `verify failed on the merged result: \`${result.command}\` exited ${result.exitCode ?? 'by a signal'}\n${result.tail}`

/** What a claim set in motion, in words for the model. */
export const afterClaim = (core: Core, id: string): string => {
  const task = core.tasks.get(id)?.value
  if (task?.status === 'completed')
    return `task ${id} is completed${task.result?.outcome === 'unverified' ? ', unverified: nothing proves it' : ''}.`
  return core.hub && task?.claimed?.head
    ? `task ${id} is claimed done at ${task.claimed.head.slice(0, 12)}: a merge request is opened, and it is completed once that is approved, verified and merged. You are free for other work.`
    : `task ${id} is claimed done: verify runs now. You are free for other work.`
}
