import type { Result } from '../lib/result.ts'

/** One mount of a workspace view. Containment is judged against `real`, so the link behind a mount is inside. */
export interface Mount {
  /** Path in the view, without a leading slash: `repo`, `out`, `skills/csv-report`, `TASK.md`. */
  readonly at: string
  /** The real file or folder behind it, absolute, symlinks resolved. */
  readonly real: string
  readonly access: 'read' | 'append' | 'write'
  /** Real paths below `real` that are not part of it (run state, in dir mode with the workspace at the team root). */
  readonly hidden: readonly string[]
}

/** One teammate's workspace view: `home` is team/<name>, its mounts the only files that exist for it. */
export interface View {
  readonly name: string
  readonly home: string
  readonly mounts: readonly Mount[]
  /** Where commands run: the real path of `repo`. */
  readonly cwd: string
  /** Extra real paths that commands may read (the hub's objects, shared by the clone). */
  readonly readable: readonly string[]
  /**
   * The real path of `path` (relative to the view's top, or absolute inside a mount), after `..`, absolute paths and every
   * symlink were resolved, of the last existing ancestor too. Outside every mount, hidden, or of too little access: a fault
   * whose message says which mounts there are.
   */
  resolve(path: string, access: 'read' | 'append' | 'write'): Result<{ real: string; mount: Mount; shown: string }>
}
