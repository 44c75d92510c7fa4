import type { BaseReport } from '../git/base.ts'
import { humanInbox } from './mail.ts'
import type { Notices } from './notices.ts'
import { checkTree, type Gate } from './tree.ts'

export interface BaseOptions extends Gate {
  readonly notices: Pick<Notices, 'problem' | 'tell'>
  /** Runs an act alone among everything that moves the trunk. */
  readonly inLane: <T>(act: () => Promise<T>) => Promise<T>
}

/**
 * Brings a base that moved into the trunk. Where the trunk has nothing of its own it follows at once: what is taken in is exactly
 * the base, the person's own word. Where both moved, their merge is something nobody has seen yet, so it passes the gate that
 * work passes (`verify` on a clean checkout). A conflict, a red check and one that could not run leave the trunk where it is:
 * that stands as a problem, the human is told once, and it is tried again when the base or the trunk moved.
 */
export class Base {
  readonly #o: BaseOptions
  /** The base and the trunk that do not come together. */
  #refused: string | null = null

  constructor(o: BaseOptions) {
    this.#o = o
  }

  /** Looks at the base and takes what needs no check. What is left is a merge that the gate has not refused yet. */
  async look(): Promise<BaseReport | null> {
    const { core, notices } = this.#o
    const { hub, store } = core
    if (!hub) return null
    const seen = await hub.refreshBase()
    if (!seen.ok) {
      notices.problem('base', `the base branch could not be read: ${seen.fault.message}`)
      return null
    }
    const { how, files, tree } = seen.value
    if (how === 'conflict') {
      this.#refuse(seen.value, 'conflict', `conflicts with the trunk in ${files.join(', ')}`, '')
      return null
    }
    if (tree !== null) return this.#refused === stamp(seen.value) ? null : seen.value
    notices.problem('base', null)
    if (seen.value.moved) store.note({ event: 'base.moved', by: 'supervisor', info: { ...seen.value } })
    return null
  }

  /** Before work starts from the trunk: resolves when the base is in it, or cannot be for now. */
  async bring(): Promise<void> {
    if (await this.look()) await this.#o.inLane(() => this.#merge())
  }

  async #merge(): Promise<void> {
    const { core, notices, signal } = this.#o
    const { hub, store, config } = core
    if (!hub || signal.aborted) return
    // Behind what was in the lane before: the trunk may have moved, or another have brought it.
    const seen = await this.look()
    if (!seen || seen.tree === null) return
    const result = await checkTree(this.#o, { base: seen.to }, seen.tree, config.verify?.trim() ? [config.verify] : [])
    if (signal.aborted) return
    if (result.couldNotRun)
      return this.#refuse(
        seen,
        'unrun',
        `is not in the trunk, since "${result.command}" could not run on the merge of both`,
        result.tail,
      )
    if (!result.ok) {
      const exit = result.exitCode === null ? 'ended by a signal' : `exited ${result.exitCode}`
      return this.#refuse(
        seen,
        'red',
        `fails verify when merged with the trunk: \`${result.command}\` ${exit}`,
        result.tail,
      )
    }
    const message = `Merge ${hub.baseName} into ${hub.trunkName}`
    const merged = await hub.merge({ head: seen.to, tree: seen.tree, onto: seen.trunk, message })
    // Moved by something else that took the base in, a landing: the next look tells.
    if (!merged.ok && merged.fault.code === 'conflict') return
    if (!merged.ok) return notices.problem('base', `the base could not be merged: ${merged.fault.message}`)
    notices.problem('base', null)
    const { tree: _, ...report } = seen
    store.note({ event: 'base.moved', by: 'supervisor', info: { ...report, trunk: merged.value.commit } })
  }

  #refuse(seen: BaseReport, kind: 'conflict' | 'red' | 'unrun', what: string, tail: string): void {
    const { core, notices } = this.#o
    const { hub } = core
    if (!hub) return
    this.#refused = stamp(seen)
    const settle = `in ${hub.workspace.top}, git fetch '${hub.dir}' ${hub.trunkName} && git merge FETCH_HEAD, settle it and commit`
    const remedy =
      kind === 'unrun'
        ? 'mend what kept it from running, then start the team again'
        : kind === 'red'
          ? `mend it on ${hub.baseName} (${settle}) or by a task`
          : settle
    const told = `the base ${hub.baseName} moved to ${seen.to.slice(0, 12)} and ${what}`
    notices.problem('base', `${told}; work goes on from the trunk as it is: ${remedy}`)
    notices.tell(
      humanInbox,
      `msg_base_${seen.to}_${kind}`,
      `${told}. The trunk stays where it is and work goes on from there; it is tried again when either has moved. To mend it: ${remedy}.${tail === '' ? '' : `\n${tail}`}`,
    )
  }
}

const stamp = ({ to, trunk }: BaseReport): string => `${to} ${trunk}`
