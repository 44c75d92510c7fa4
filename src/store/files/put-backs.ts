import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, iso } from '../../lib/clock.ts'
import { freeName } from './drops.ts'
import type { Problem } from './problem.ts'

/**
 * Edits that were put back: each is kept beside the task's file, and shown as a problem until a person, who has then seen
 * it, removes what is kept.
 */
export class PutBacks {
  readonly #o: { dir: string; label: string; clock: Clock; file: (id: string) => string }
  /** By the name it is kept under. */
  readonly #kept = new Map<string, Problem>()

  constructor(o: { dir: string; label: string; clock: Clock; file: (id: string) => string }) {
    this.#o = o
  }

  problems(): Problem[] {
    return [...this.#kept.values()]
  }

  /** Keeps the edited text. Returns what is to be told, and the name it is kept under. */
  keep(
    id: string,
    bytes: Uint8Array,
    reasons: readonly string[],
  ): { readonly problem: Problem; readonly name: string } {
    const { dir, label, clock, file } = this.#o
    const time = iso(clock.wall()).replaceAll(':', '-')
    const name = freeName(dir, `task_${id}.rejected-${time}.json`)
    writeFileSync(join(dir, name), bytes, { mode: 0o600, flag: 'wx' })
    const reason = `${reasons.join('; ')} (put back; the edit is kept in ${label}/${name}: remove that when it is settled)`
    const problem = this.#once('edit', `${label}/${file(id)}`, reason)
    this.#kept.set(name, problem)
    return { problem, name }
  }

  /** What is told of a link or a pipe that stood in the place of a task's file, and was removed. What a link leads to is not touched. */
  removed(id: string, what: string): Problem {
    const reason = `${what} stood in the place of the file of task ${id}, and was removed: edit the task's file itself, or drop a file of another name for a new task`
    return this.#once('edit', `${this.#o.label}/${this.#o.file(id)}`, reason)
  }

  /** What is told of a folder in the place of a task's file: it is a person's, and stays. */
  blocked(id: string): Problem {
    const file = `${this.#o.label}/${this.#o.file(id)}`
    const reason = `a folder stands in the place of the file of task ${id}: move it away (mv ${file} ${file}.old), and the file comes back`
    return { kind: 'blocked', file, reason, standing: true, known: false }
  }

  /** What is told of deleted files, which are put back. */
  deleted(ids: readonly [string, ...string[]]): Problem {
    const { label, file } = this.#o
    const what = ids.length === 1 ? 'deleted' : `${ids.length} task files deleted`
    const reason = `${what}, and put back: \`team task cancel <id>\` is the way to be rid of a task`
    return this.#once('deleted', ids.length === 1 ? `${label}/${file(ids[0])}` : label, reason)
  }

  #once(kind: Problem['kind'], file: string, reason: string): Problem {
    return { kind, file, reason, standing: false, known: false }
  }

  /** `names` is what stands in the folder. One kept by an earlier run is shown too; why it was put back was told then. */
  sweep(names: ReadonlySet<string>): void {
    const { dir, label } = this.#o
    // One that was kept since the folder was listed stands there too.
    for (const name of this.#kept.keys()) if (!names.has(name) && !existsSync(join(dir, name))) this.#kept.delete(name)
    for (const name of names) {
      const id = /^task_(.+)\.rejected-[^/]*\.json$/.exec(name)?.[1]
      if (id === undefined || this.#kept.has(name)) continue
      const reason = `an edit of task ${id} that was put back: remove it when it is settled`
      this.#kept.set(name, { kind: 'edit', file: `${label}/${name}`, reason, standing: false, known: true })
    }
  }
}
