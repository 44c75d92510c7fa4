import { join } from 'node:path'
import { type Carried, closeTask, isLarge, isOfReview, renew } from '../agent/renew.ts'
import { iso } from '../lib/clock.ts'
import type { LifeOptions } from './life-options.ts'
import { freshForReview } from './reading.ts'
import { endTaskFile } from './task-file.ts'

/** Where a conversation has its cuts: at the end of a task, and where its context begins anew. */
export class Chapters {
  readonly #o: LifeOptions
  /** What the context held that was put aside for a review. */
  #aside: Carried | null = null
  /** The history was refused, or ended a thread: the next context begins anew. */
  isSpoiled = false

  constructor(o: LifeOptions) {
    this.#o = o
  }

  /** The task of the context is over: told in its file, its transcript and the journal. */
  close(how: string): void {
    const { session, root, clock, member, view } = this.#o
    const at = iso(clock.wall())
    endTaskFile(view.home, how, at)
    closeTask(session, { folder: join(root, '.transcripts'), teammate: member.name, how, at })
  }

  /** Between turns: the context begins anew where it must. What the teammate is to be told of it, or null. */
  renew(): string | null {
    const { session, prefix, member } = this.#o
    const must = this.isSpoiled || isOfReview(session)
    const told = renew(session, prefix(), { window: member.model.contextWindow, must, before: this.#aside })
    this.isSpoiled = false
    if (must) this.#aside = null
    return told
  }

  /**
   * Must the context begin anew before a turn for mail? A prefix that stays the same costs less, so only where it must: in the
   * middle of a turn (`isOpen`) only where it is spoiled.
   */
  isOver(isOpen: boolean): boolean {
    const { session, member } = this.#o
    return this.isSpoiled || (!isOpen && (isOfReview(session) || isLarge(session, member.model.contextWindow)))
  }

  /** Between turns: a context in which nothing of before stands, for the work of another that is to be read. */
  fresh(): void {
    const { session, prefix } = this.#o
    const { done, mail } = session.context
    if (!isOfReview(session)) this.#aside = { done: [...done], mail: [...mail] }
    session.begin(prefix(), false)
    session.take([{ k: 'note', text: freshForReview }])
    this.isSpoiled = false
  }
}
