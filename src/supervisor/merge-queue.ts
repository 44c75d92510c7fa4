import { reach } from '../lib/points.ts'
import { conflictText } from './conflict.ts'
import { verifyCommands } from './core.ts'
import { checkTree, type Gate } from './tree.ts'
import { redText, type Verdicts } from './verdict.ts'

/**
 * Approved merges on their way to the trunk, one at a time, first approved first served:
 *
 *   approved ──▶ preview ──clean──▶ verify the merged tree ──green──▶ move the trunk ──▶ completed
 *                   └──conflict──▶ sent back    └──red──▶ sent back    └──moved meanwhile──▶ preview again
 */
export class MergeQueue {
  readonly #gate: Gate
  readonly #verdicts: Verdicts
  /** One at a time among everything that moves the trunk or reads it to build on it. */
  readonly #inLane: <T>(act: () => Promise<T>) => Promise<T>

  constructor(o: { gate: Gate; verdicts: Verdicts; inLane: <T>(act: () => Promise<T>) => Promise<T> }) {
    this.#gate = o.gate
    this.#verdicts = o.verdicts
    this.#inLane = o.inLane
  }

  /** Resolves when this approved merge has come to its end, or the daemon is ending. */
  merge(taskId: string, requestId: string): Promise<void> {
    return this.#inLane(() => this.#merge(taskId, requestId))
  }

  async #merge(taskId: string, requestId: string): Promise<void> {
    const { hub, requests, tasks, store } = this.#gate.core
    const request = requests.get(requestId)?.value
    const task = tasks.get(taskId)?.value
    if (!hub || !task || request?.type !== 'merge_request') return
    const { head } = request.data
    const wanted = () => {
      const now = tasks.get(taskId)?.value
      return now?.status === 'in_progress' && now.claimed?.head === head
    }
    if (!wanted()) return this.#verdicts.drop(requestId, taskId)
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
        this.#verdicts.problem(
          `the trunk took task ${taskId} in as ${commit.slice(0, 12)} just before: ${moved.fault.message}`,
        )
    }
    const verified = verifyCommands(this.#gate.core, task).length > 0
    for (let attempt = 0; attempt < 5; attempt++) {
      const onto = await hub.trunk()
      const preview = await hub.preview(head)
      if (!preview.ok) {
        if (preview.fault.code !== 'refused') return this.#verdicts.abandon(requestId, preview.fault.message)
        requests.effect(requestId, 'done', 'returned', preview.fault.message)
        return this.#verdicts.sendBack(
          taskId,
          `your branch cannot be merged: ${preview.fault.message}${preview.fault.hint === undefined ? '' : ` (${preview.fault.hint})`}`,
        )
      }
      if (!preview.value.clean) {
        const text = await conflictText(this.#gate.core, task, { head, ...preview.value })
        if (!wanted()) return this.#verdicts.drop(requestId, taskId)
        requests.effect(requestId, 'done', 'returned', `conflict in ${preview.value.files.join(', ')}`)
        return this.#verdicts.sendBack(taskId, text, { takeIn: preview.value.onto })
      }
      const result = await checkTree(
        this.#gate,
        { task: taskId },
        preview.value.tree,
        verifyCommands(this.#gate.core, task),
      )
      if (this.#gate.signal.aborted) return
      if (result.couldNotRun) {
        this.#verdicts.stuck(task, result)
        requests.effect(requestId, 'done', 'unknown', `verify could not run: ${result.tail}`)
        return
      }
      if (!result.ok) {
        requests.effect(requestId, 'done', 'returned', `${result.command} exited ${result.exitCode}`)
        this.#verdicts.sendBack(taskId, redText(result), { takeIn: preview.value.onto })
        return
      }
      // A crash after the trunk had moved, or the same commits under another task: the head is on it already.
      if (preview.value.upToDate) {
        const made = await hub.mergeOf(head)
        return complete((made.ok ? made.value : null) ?? onto, onto, 'the trunk holds it already')
      }
      if (!wanted()) return this.#verdicts.drop(requestId, taskId)
      reach('effect.act')
      const merged = await hub.merge({
        head,
        tree: preview.value.tree,
        onto,
        message: `Merge task ${taskId}: ${task.title}\n\nOwner: ${request.data.owner}\nRequest: ${requestId}, approved by ${request.decidedBy}`,
      })
      reach('effect.acted')
      if (merged.ok) {
        store.note({
          event: 'trunk.moved',
          by: 'supervisor',
          info: { task: taskId, from: onto, to: merged.value.commit },
        })
        complete(merged.value.commit, merged.value.commit, `trunk at ${merged.value.commit.slice(0, 12)}`)
        await store.flushed()
        return
      }
      if (merged.fault.code !== 'conflict') return this.#verdicts.abandon(requestId, merged.fault.message)
    }
    this.#verdicts.abandon(requestId, 'the trunk kept moving')
  }
}
