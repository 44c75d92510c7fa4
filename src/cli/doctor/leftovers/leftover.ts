import { appendFileSync, lstatSync, renameSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { Git } from '../../../git/run.ts'
import { makeFolder, syncFolder } from '../../../lib/files.ts'
import type { Result } from '../../../lib/result.ts'
import type { LoadedConfig } from '../../../store/root.ts'
import { layout } from '../../../store/root.ts'
import type { Store } from '../../../store/store.ts'

/** Something that an older or a broken run left, and what is done about it. */
export interface Leftover {
  /** Its kind, in a word or two. */
  readonly what: string
  /** `fail`: the team does not work right with it. */
  readonly state: 'warn' | 'fail'
  /** Which one, and why it is one. */
  readonly detail: string
  /** What `team doctor --fix` does. */
  readonly fix: string
  /** What a person does about it, where that does nothing. */
  readonly remedy?: string
  /** Does that. Resolves with why not where it could not be done. Null: it is for a person to do. */
  readonly mend: ((backup: Backup) => Promise<string | null>) | null
}

/** What is looked at. */
export interface Place {
  /** The real path of the team root. */
  readonly root: string
  readonly store: Store
  readonly config: LoadedConfig
  /** Runs in the hub; null where there is none. */
  readonly git: Git | null
}

/**
 * Where everything goes that is taken away: `.team/doctor/<time>/`, each at the path it had. Nothing is removed, so that whoever
 * misses something finds it there.
 */
export class Backup {
  readonly folder: string
  readonly #root: string
  #isUsed = false

  constructor(root: string, at: string) {
    this.#root = root
    this.folder = join(layout(root).run, 'doctor', at.replaceAll(':', '-'))
  }

  get isUsed(): boolean {
    return this.#isUsed
  }

  /** The place below the folder for what lies at `path`, its folder made. */
  place(path: string): string {
    this.#isUsed = true
    const to = join(this.folder, relative(this.#root, path))
    makeFolder(join(to, '..'))
    return to
  }

  /** Writes down what was changed and is no file. */
  note(text: string): void {
    appendFileSync(this.place(join(this.#root, 'changed.txt')), `${text}\n`, { mode: 0o600 })
  }

  /** Moves a file or folder there; nothing where it is gone by now. On the disk when it returns. */
  move(path: string): void {
    if (!lstatSync(path, { throwIfNoEntry: false })) return
    const to = this.place(path)
    // A socket nobody listens at says nothing to anybody.
    if (lstatSync(path).isSocket()) rmSync(path)
    else renameSync(path, to)
    syncFolder(join(to, '..'))
    syncFolder(join(path, '..'))
  }
}

/** One that is moved away. */
export const toBackup = (
  path: string,
  found: Pick<Leftover, 'what' | 'state' | 'detail'> & { readonly after?: string },
): Leftover => ({
  what: found.what,
  state: found.state,
  detail: found.detail,
  fix: found.after === undefined ? 'moved to the backup' : `moved to the backup; ${found.after}`,
  mend: async backup => {
    backup.move(path)
    return null
  },
})

/** The fault of a step that git refused, for `mend`. */
export const refusal = (result: Result<unknown>): string | null => (result.ok ? null : result.fault.message)
