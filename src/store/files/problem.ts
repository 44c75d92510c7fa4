/** Something in a folder that people or foreign programs write that could not be taken as it is. */
export interface Problem {
  /** drop: not taken in. edit: put back. deleted: restored. letter: a line that is no message. inbox: nobody's. io: the disk. */
  readonly kind: 'drop' | 'edit' | 'deleted' | 'letter' | 'inbox' | 'request' | 'io'
  /** Relative to the team root. */
  readonly file: string
  readonly reason: string
  /** It stays wrong until somebody mends it; `onMended` tells of that. */
  readonly standing: boolean
  /** It was told in an earlier run already. */
  readonly known: boolean
}
