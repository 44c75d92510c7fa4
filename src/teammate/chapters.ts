import { join } from 'node:path'
import { closeTask, renew } from '../agent/renew.ts'
import { iso } from '../lib/clock.ts'
import type { LifeOptions } from './life-options.ts'
import { endTaskFile } from './task-file.ts'

/** Where a conversation has its cuts: at the end of a task, and where its context begins anew. */
export class Chapters {
  readonly #o: LifeOptions
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
    const told = renew(session, prefix(), { window: member.model.contextWindow, must: this.isSpoiled })
    this.isSpoiled = false
    return told
  }
}
