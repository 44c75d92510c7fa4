import { ok } from '../lib/result.ts'
import { makeTurns } from '../lib/turns.ts'
import type { Task } from '../protocol/task.ts'
import type { Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'
import { type Core, deciderOf, verifyCommands } from './core.ts'
import { MergeQueue } from './merge-queue.ts'
import type { Notices } from './notices.ts'
import { nextOfReview, type ReviewStep, reviewOf } from './review.ts'
import { checkIn, checkTree, type Gate } from './tree.ts'
import { count, redText, Verdicts } from './verdict.ts'
import { folderView } from './verify.ts'

/**
 * Leads a claim to its proof, or back. What is to be done next follows from the records alone, so it may be asked at any time
 * and after any crash:
 *
 *   claimed, to be reviewed                 ──▶ what review.ts says of it, until it is passed
 *   claimed, nothing to merge (or dir mode) ──▶ verify ──green──▶ completed     ──red──▶ sent back
 *   claimed, no request for this head       ──▶ open the merge request
 *   request waits, approvals say auto       ──▶ approve
 *   request approved                        ──▶ to the queue of merges
 *   request rejected                        ──▶ sent back with the reason
 *   request expired, withdrawn              ──▶ sent back
 */
export class Proof {
  readonly #core: Core
  readonly #gate: Gate
  readonly #hidden: readonly string[]
  readonly #signal: AbortSignal
  readonly #busy = new Map<string, Promise<void>>()
  readonly #verdicts: Verdicts
  readonly #queue: MergeQueue
  readonly #inTurn = makeTurns()
  /** What the records of a task were when its proof stopped by a fault of the program. */
  readonly #stopped = new Map<string, string>()

  constructor(o: {
    core: Core
    shell: (view: View) => Shell
    /** Paths that a check in dir mode must not see. */
    hidden: readonly string[]
    signal: AbortSignal
    notices: Pick<Notices, 'problem' | 'tell'>
  }) {
    this.#core = o.core
    this.#gate = o
    this.#hidden = o.hidden
    this.#signal = o.signal
    this.#verdicts = new Verdicts(o.core, o.notices)
    this.#queue = new MergeQueue({ gate: o, verdicts: this.#verdicts, inLane: act => this.inLane(act) })
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
    await Promise.all([...this.#busy.values(), this.inLane(async () => undefined)])
  }

  /** Runs `act` alone among everything that moves the trunk or reads it to build on it. */
  inLane<T>(act: () => Promise<T>): Promise<T> {
    return this.#inTurn(act)
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
    // Begun once it counts as busy: what it changes asks for the same task again.
    const run = Promise.resolve()
      .then(act)
      .then(
        () => this.#stamp(id) !== before,
        error => this.#isAgain(id, error),
      )
      .then(isNext => {
        this.#busy.delete(id)
        done(isNext)
      })
    this.#busy.set(id, run)
  }

  /** A fault of the program stopped it. Once for the same records it is tried again; after that the task fails, with what it was. */
  #isAgain(id: string, error: unknown): boolean {
    if (this.#signal.aborted) return false
    const why = error instanceof Error ? error.message : String(error)
    // Without its hub nothing can be said of any work: it waits for the start after that was mended.
    if (this.#core.hub?.damage()) {
      this.#verdicts.problem(`task ${id}: its proof stopped: ${why}`)
      return false
    }
    const now = this.#stamp(id)
    const isFirst = this.#stopped.get(id) !== now
    if (isFirst) {
      this.#stopped.set(id, now)
      const text = `task ${id}: its proof stopped, and is tried once more: ${why}`
      this.#core.store.note({ event: 'warning', by: 'supervisor', info: { task: id, text } })
    } else {
      this.#stopped.delete(id)
      this.#verdicts.broken(id, why)
    }
    return isFirst
  }

  /** The revisions of the records that decide what is next. */
  #stamp(id: string): string {
    const { tasks, requests } = this.#core
    const rec = tasks.get(id)
    const head = rec?.value.claimed?.head
    const request = rec && head ? requests.mergeOf(id, rec.value.attempts, head) : undefined
    const review = requests.reviewsOf(id).at(-1)
    const stamps = [review, request].map(each => each && `${each.id} ${requests.get(each.id)?.rev}`)
    return `${rec?.rev} ${stamps.join(' ')}`
  }

  #next(task: Task): (() => Promise<void>) | null {
    const { hub, requests } = this.#core
    const head = task.claimed?.head ?? null
    const review = nextOfReview(this.#core, task)
    if (review.step !== 'passed') return review.step === 'wait' ? null : () => this.#review(task, review)
    if (!hub || head === null) return () => this.#verifyAlone(task)
    const request = requests.mergeOf(task.id, task.attempts, head)
    if (!request) return () => this.#openRequest(task, head)
    if (request.effect?.step === 'done')
      return async () => {
        if (!(await this.#verdicts.follow(task, request))) await this.#queue.merge(task.id, request.id)
      }
    if (request.outcome === null) return request.to === 'supervisor' ? async () => this.#approve(request.id) : null
    if (request.status === 'approved' && request.outcome === 'decided')
      return () => this.#queue.merge(task.id, request.id)
    const why =
      request.outcome === 'decided'
        ? `the merge was rejected by ${request.decidedBy}`
        : `the merge request ${request.outcome}`
    return async () => this.#verdicts.sendBack(task.id, `${why}${request.reason === null ? '' : `: ${request.reason}`}`)
  }

  async #verifyAlone(task: Task): Promise<void> {
    const { tasks, hub, workspace } = this.#core
    const commands = verifyCommands(this.#core, task)
    const summary = task.claimed?.summary ?? ''
    if (task.accept.length > 0) {
      if (hub)
        this.#verdicts.sendBack(
          task.id,
          `nothing was committed, and accept (${task.accept.join('; ')}) must be red before the work and green by it`,
        )
      else
        this.#verdicts.unprovable(
          task.id,
          'accept needs git mode: in one shared folder there is nothing on which it could be seen to fail without the work. Take it out of the task, or give verify',
        )
      return
    }
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
    if (result.couldNotRun) return this.#verdicts.stuck([task], result)
    if (result.ok)
      tasks.move(
        task.id,
        'supervisor',
        { move: 'complete', result: { outcome: 'verified', summary } },
        { command: result.command, ms: Math.round(result.ms) },
      )
    else this.#verdicts.sendBack(task.id, redText(result))
  }

  async #review(task: Task, next: ReviewStep): Promise<void> {
    const { hub, requests, tasks } = this.#core
    if (next.step === 'back') return this.#verdicts.sendBack(task.id, next.reason, { toOther: next.toOther })
    if (next.step === 'choose anew') {
      requests.end(next.request, 'withdrawn', 'supervisor', next.why)
      return
    }
    const head = task.claimed?.head ?? null
    const brings = hub && head !== null ? await hub.brings(head) : ok({ commits: 0, files: [] })
    const now = tasks.get(task.id)?.value
    if (now?.claimed !== task.claimed) return
    const opened = brings.ok ? requests.open(reviewOf(this.#core, task, brings.value)) : brings
    if (!opened.ok) this.#verdicts.problem(`task ${task.id}: ${opened.fault.message}`)
  }

  async #openRequest(task: Task, head: string): Promise<void> {
    const { hub, requests, tasks } = this.#core
    if (!hub) return
    const owner = task.owner ?? 'supervisor'
    const [trunk, brings] = await Promise.all([hub.trunk(), hub.brings(head)])
    if (!brings.ok) {
      this.#verdicts.problem(`task ${task.id}: ${brings.fault.message}`)
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
        ...(task.accept.length === 0 ? [] : [`must fail without it and pass with it: ${task.accept.join(' && ')}`]),
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
      this.#verdicts.problem(`task ${task.id}: ${opened.fault.message}`)
      return
    }
  }

  /** Nobody is asked: so `approvals` says. */
  #approve(requestId: string): void {
    const approved = this.#core.requests.decide(requestId, 'supervisor', 'approve', 'approvals.merge_request is auto')
    if (!approved.ok) this.#verdicts.problem(`${requestId}: ${approved.fault.message}`)
  }
}

/** What a claim set in motion, in words for the model. */
export const afterClaim = (core: Core, id: string): string => {
  const task = core.tasks.get(id)?.value
  if (task?.status === 'completed')
    return `task ${id} is completed${task.result?.outcome === 'unverified' ? ', unverified: nothing proves it' : ''}.`
  return core.hub && task?.claimed?.head
    ? `task ${id} is claimed done at ${task.claimed.head.slice(0, 12)}: a merge request is opened, and it is completed once that is approved, verified and merged. You are free for other work.`
    : `task ${id} is claimed done: verify runs now. You are free for other work.`
}
