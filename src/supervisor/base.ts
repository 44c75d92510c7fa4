import type { BaseReport } from '../git/base.ts'
import type { Hub } from '../git/hub.ts'
import { shellWord } from '../git/script.ts'
import type { Fault } from '../lib/result.ts'
import { humanInbox } from './mail.ts'
import { MergesLost } from './merge-lost.ts'
import type { Notices } from './notices.ts'
import { checkTree, type Gate } from './tree.ts'
import { howEnded } from './verify.ts'

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
  /** Why the base cannot be read, as the human was told. */
  #told: string | null = null

  readonly #lost: MergesLost

  constructor(o: BaseOptions) {
    this.#o = o
    this.#lost = new MergesLost(o.core, o.notices)
  }

  /** Looks at the base and takes what needs no check. What is left is a merge that the gate has not refused yet. */
  async look(): Promise<BaseReport | null> {
    const { core, notices } = this.#o
    const { hub, store } = core
    if (!hub) return null
    const seen = await hub.refreshBase()
    if (!seen.ok) {
      this.#unread(seen.fault)
      return null
    }
    this.#told = null
    await this.#lost.look(seen.value.trunk)
    const rewritten = rewrittenWords(hub, seen.value)
    if (rewritten !== null) notices.tell(humanInbox, `msg_base_${seen.value.to}_rewritten_${store.seq}`, rewritten)
    if (seen.value.rewritten) {
      // What was said is on the disk before it counts as said: after a crash in between it is said once more.
      await store.flushed()
      await hub.toldBase()
    }
    const { how, files, tree } = seen.value
    if (how === 'conflict') {
      this.#refuse(seen.value, 'conflict', `conflicts with the trunk in ${files.join(', ')}`, '')
      return null
    }
    if (tree !== null) return this.#refused === stamp(seen.value) ? null : seen.value
    notices.problem('base', null)
    // Another trunk than the one that was red, if one was: what is merged next tells anew.
    if (how === 'fast-forward') notices.problem('trunk', null)
    if (seen.value.moved) store.note({ event: 'base.moved', by: 'supervisor', info: { ...seen.value } })
    return null
  }

  /** The base is gone, or not what it was: work goes on from the trunk, and the human is told once what can be done. */
  #unread({ message, hint }: Fault): void {
    const { core, notices } = this.#o
    const text = `the base branch could not be read: ${message}${hint === undefined ? '' : ` (${hint})`}`
    notices.problem('base', text)
    if (this.#told === text) return
    this.#told = text
    notices.tell(humanInbox, `msg_base_unread_${core.store.seq}`, `${text}. Work goes on from the trunk as it is.`)
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
      return this.#refuse(
        seen,
        'red',
        `fails verify when merged with the trunk: \`${result.command}\` ${howEnded(result)}`,
        result.tail,
      )
    }
    const message = `Merge ${hub.baseName} into ${hub.trunkName}`
    const merged = await hub.merge({ head: seen.to, tree: seen.tree, onto: seen.trunk, message })
    // Moved by something else that took the base in, a landing: the next look tells.
    if (!merged.ok && merged.fault.code === 'conflict') return
    if (!merged.ok) return notices.problem('base', `the base could not be merged: ${merged.fault.message}`)
    notices.problem('base', null)
    notices.problem('trunk', null)
    const { tree: _, ...report } = seen
    store.note({ event: 'base.moved', by: 'supervisor', info: { ...report, trunk: merged.value.commit } })
  }

  #refuse(seen: BaseReport, kind: 'conflict' | 'red' | 'unrun', what: string, tail: string): void {
    const { core, notices } = this.#o
    const { hub } = core
    if (!hub) return
    this.#refused = stamp(seen)
    const settle = `in ${hub.workspace.top}, git fetch ${shellWord(hub.dir)} ${hub.trunkName} && git merge FETCH_HEAD, settle it and commit`
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

/** What a person should know who rewrote the base: the trunk still has what it had. Null where there is nothing to say. */
export const rewrittenWords = (
  { dir, baseName, trunkName, workspace }: Hub,
  { moved, from, to, dropped }: BaseReport,
): string | null => {
  if (!moved || dropped === null) return null
  const what = `${baseName} in ${workspace.top} was rewritten: it went from ${from.slice(0, 12)} to ${to.slice(0, 12)}`
  return dropped.length === 0
    ? `${what}. All that it had is in it still, as other commits; ${trunkName} has both, and so has ${baseName} after team land`
    : `${what}, and what it has no more is on ${trunkName} still, so that team land brings it back: ${dropped.join('; ')}. To be rid of it: let a task revert it (git revert), or land what you want, then team down, move ${dir} away, and team up makes a new one from ${baseName}`
}

const stamp = ({ to, trunk }: BaseReport): string => `${to} ${trunk}`
