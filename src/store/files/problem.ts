import { errnoOf } from '../../lib/files.ts'

/** Something in a folder that people or foreign programs write that could not be taken as it is. */
export interface Problem {
  /** drop: not taken in. edit: put back. deleted: restored. blocked: no file stands where one belongs. letter: a line that is no message. inbox: nobody's. io: the disk. */
  readonly kind: 'drop' | 'edit' | 'deleted' | 'blocked' | 'letter' | 'inbox' | 'request' | 'io'
  /** Relative to the team root. */
  readonly file: string
  readonly reason: string
  /** It stays wrong until somebody mends it; `onMended` tells of that. */
  readonly standing: boolean
  /** It was told in an earlier run already. */
  readonly known: boolean
}

/** What the disk refuses, file by file: told when it begins or changes, not at each try, and over when a try succeeds. */
export class Troubles {
  readonly #standing = new Map<string, Problem>()
  readonly #onProblem: (problem: Problem) => void
  readonly #onMended: ((file: string) => void) | undefined

  constructor(onProblem: (problem: Problem) => void, onMended?: (file: string) => void) {
    this.#onProblem = onProblem
    this.#onMended = onMended
  }

  list(): Problem[] {
    return [...this.#standing.values()]
  }

  /** `file` relative to the team root. Anything that is no refusal of the disk is a bug, and thrown on. */
  tell(file: string, error: unknown): void {
    if (errnoOf(error) === undefined || !(error instanceof Error)) throw error
    this.stands({ kind: 'io', file, reason: error.message, standing: true, known: false })
  }

  /** Something else that stands until it is `over`; told when it begins. */
  stands(problem: Problem): void {
    if (this.#standing.get(problem.file)?.reason === problem.reason) return
    this.#standing.set(problem.file, problem)
    this.#onProblem(problem)
  }

  /** A look at (or into) a folder: a refusal of the disk stands until a look at all of it succeeds, and is looked at again. */
  async look(folder: string, isWhole: boolean, look: () => Promise<void> | void): Promise<void> {
    try {
      await look()
      if (isWhole) this.over(`${folder}/`)
    } catch (error) {
      this.tell(`${folder}/`, error)
    }
  }

  over(file: string): void {
    if (this.#standing.delete(file)) this.#onMended?.(file)
  }
}
