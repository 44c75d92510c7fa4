import type { Hub } from '../../src/git/hub.ts'
import { fail, ok, type Result } from '../../src/lib/result.ts'

interface Op {
  isRun: boolean
  readonly run: () => void
  readonly tell: () => void
}

const unused = (): never => {
  throw new Error('nothing asks this of a simulated hub')
}

/** A trunk and branches without git, in steps that the schedule takes: an act happens, and is heard of later, or never. */
export class SimHub {
  trunk = 't0'
  /** By head, the commit that brought it to the trunk. */
  readonly merged = new Map<string, string>()
  readonly conflicts = new Set<string>()
  /** Merge commits, on the trunk or not: what each was made of. */
  readonly #made = new Map<string, { readonly onto: string; readonly head: string }>()
  /** By clone and branch, what its teammate committed there. */
  readonly heads = new Map<string, string>()
  ops: Op[] = []
  #n = 0
  /** Looked at before the trunk moves. */
  readonly #mayMerge: (head: string) => void

  constructor(mayMerge: (head: string) => void) {
    this.#mayMerge = mayMerge
  }

  commit(clone: string, branch: string): void {
    this.heads.set(`${clone} ${branch}`, `h${++this.#n}`)
  }

  /** Takes a step of one act: it happens, or what came of it is heard. */
  step(pick: number, isWhole: boolean): void {
    const at = pick % this.ops.length
    const op = this.ops[at]
    if (!op) return
    if (op.isRun || isWhole) this.ops.splice(at, 1)
    if (!op.isRun) op.run()
    op.isRun = true
    if (!this.ops.includes(op)) op.tell()
  }

  /** The process that used it is dead. */
  end(): void {
    this.ops = []
  }

  /** The merges between two commits, oldest first. */
  #chain(from: string, to: string): { commit: string; head: string }[] {
    const chain: { commit: string; head: string }[] = []
    for (let at = to; at !== from; ) {
      const made = this.#made.get(at)
      if (!made) throw new Error(`${to} does not come from ${from}`)
      chain.unshift({ commit: at, head: made.head })
      at = made.onto
    }
    return chain
  }

  #holds(commit: string, head: string): boolean {
    for (let at: string | undefined = commit; at !== undefined; at = this.#made.get(at)?.onto)
      if (this.#made.get(at)?.head === head) return true
    return false
  }

  get hub(): Hub {
    const op = <T>(act: () => T): Promise<T> =>
      new Promise(resolve => {
        let value: T
        this.ops.push({
          isRun: false,
          run: () => {
            value = act()
          },
          tell: () => resolve(value),
        })
      })
    const base = {
      moved: false,
      from: 'b',
      to: 'b',
      rewritten: false,
      dropped: null,
      how: 'none' as const,
      files: [],
      tree: null,
    }
    return {
      dir: '/nowhere/hub',
      made: false,
      mended: [],
      trunkName: 'trunk',
      baseName: 'main',
      workspace: {} as Hub['workspace'],
      damage: () => null,
      trunk: async () => this.trunk,
      standing: async () => ({ trunk: this.trunk, base: 'b', ahead: 0 }),
      refreshBase: async () => ok({ ...base, trunk: this.trunk }),
      toldBase: async () => ok(null),
      ensureClone: unused,
      copy: unused,
      absent: async () => [],
      fetchBranch: (clone, branch) =>
        op(() => {
          const head = this.heads.get(`${clone} ${branch}`)
          const commits = head === undefined || this.merged.has(head) ? 0 : 1
          return ok({ head: head ?? this.trunk, commits, files: [], replaced: null })
        }),
      fetchRescue: async () => ok([]),
      blame: unused,
      broughtBy: unused,
      saved: async () => ok([]),
      restore: unused,
      branchHead: async () => ok(null),
      has: async () => true,
      holds: async () => ok(false),
      offTrunk: async () => ok([]),
      unmergeable: async () => ok([]),
      // Which paths a branch touches is not simulated: none that its task may not.
      brings: () => op(() => ok({ commits: 1, files: [] })),
      preview: (head, into = this.trunk) =>
        op(() =>
          this.conflicts.has(head)
            ? ok({ clean: false as const, files: ['a.txt'], messages: ['CONFLICT'], onto: into })
            : ok({ clean: true as const, tree: `tree ${head}`, onto: into, upToDate: this.#holds(into, head) }),
        ),
      conflict: async () => ok({ files: [], since: [] }),
      checkout: unused,
      commitMerge: ({ head, onto }) =>
        op(() => {
          const commit = `t${++this.#n}`
          this.#made.set(commit, { onto, head })
          return ok({ commit })
        }),
      moveTrunk: ({ from, to, heads }) =>
        op((): Result<null> => {
          if (from !== this.trunk) return fail('conflict', 'the trunk moved')
          const chain = this.#chain(from, to)
          if (chain.map(({ head }) => head).join() !== heads.join()) throw new Error(`${to} is not made of ${heads}`)
          for (const { commit, head } of chain) {
            this.#mayMerge(head)
            this.merged.set(head, commit)
          }
          this.trunk = to
          return ok(null)
        }),
      merge: unused,
      forkPoint: async () => ok('b'),
      mergeOf: async head => ok(this.merged.get(head) ?? null),
      diff: unused,
      show: unused,
      land: unused,
    }
  }
}
