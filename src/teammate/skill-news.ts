import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { errnoOf } from '../lib/files.ts'

export interface SkillNewsOptions {
  /** The root's `team` folder. */
  readonly teamDir: string
  readonly name: string
  /** When the session last wrote, in milliseconds: what changed since then is told at the first look. Null: nothing to tell of before. */
  readonly since: number | null
  /** Called before a change is told, so that what is new can be reached. */
  readonly onChange: () => void
}

interface Seen {
  /** Changes with the file, at the cost of one look. */
  readonly stat: string
  /** Of its content. */
  readonly hash: string
  readonly at: number
}

/**
 * Tells of skills whose SKILL.md was edited, added or taken away. Their list stands in the stable prefix, which keeps its
 * bytes until the next task, and what was read of one stands in the context: so a change is told, and never slipped in.
 */
export class SkillNews {
  readonly #o: SkillNewsOptions
  #seen: ReadonlyMap<string, Seen> | null = null

  constructor(o: SkillNewsOptions) {
    this.#o = o
  }

  /** What changed since the last look, in words for the teammate; null where nothing did. A few file stats where nothing did. */
  look(): string | null {
    const before = this.#seen
    const now = this.#read(before ?? new Map())
    this.#seen = now
    const since = this.#o.since ?? Number.POSITIVE_INFINITY
    const changed = [...now].flatMap(([skill, { hash, at }]) => {
      const was = before?.get(skill)
      return before === null ? (at > since ? [skill] : []) : was && was.hash !== hash ? [skill] : []
    })
    const added = before === null ? [] : [...now.keys()].filter(skill => !before.has(skill))
    const gone = before === null ? [] : [...before.keys()].filter(skill => !now.has(skill))
    const told = [
      ...(changed.length > 0 ? [`changed: ${changed.join(', ')}`] : []),
      ...(added.length > 0 ? [`new: ${added.join(', ')}`] : []),
      ...(gone.length > 0 ? [`gone: ${gone.join(', ')}`] : []),
    ]
    if (told.length === 0) return null
    this.#o.onChange()
    return `Skills are not what they were (${told.join('; ')}). Read a SKILL.md again before you go on by it; the list in your system message is the one of before until your next task.`
  }

  /** Every SKILL.md by its path in the view, as it is now. One that cannot be read is none. */
  #read(before: ReadonlyMap<string, Seen>): Map<string, Seen> {
    const { teamDir, name } = this.#o
    const now = new Map<string, Seen>()
    // The teammate's own come first, links to the team's among them; then what was not linked yet.
    for (const folder of [join(teamDir, name, 'skills'), join(teamDir, 'skills')])
      for (const skill of foldersIn(folder)) {
        const shown = `skills/${skill}`
        const seen = now.has(shown) ? null : seenAt(join(folder, skill, 'SKILL.md'), before.get(shown))
        if (seen) now.set(shown, seen)
      }
    return now
  }
}

const foldersIn = (path: string): string[] => {
  try {
    return readdirSync(path)
      .filter(name => !name.startsWith('.'))
      .sort()
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown
    return [] // No folder, no skills.
  }
}

const seenAt = (file: string, before: Seen | undefined): Seen | null => {
  try {
    const found = statSync(file)
    if (!found.isFile()) return null
    const stat = `${found.ino}:${found.size}:${found.mtimeMs}:${found.ctimeMs}`
    if (before?.stat === stat) return before
    return { stat, hash: createHash('sha256').update(readFileSync(file)).digest('hex'), at: found.mtimeMs }
  } catch (thrown) {
    if (errnoOf(thrown) === undefined) throw thrown
    return null // There is none, or it cannot be read: loadSkills warns of that.
  }
}
