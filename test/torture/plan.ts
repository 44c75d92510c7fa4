import type { Point } from '../../src/lib/points.ts'
import type { Random } from './random.ts'

/** How a daemon is to die: at the first of some points that it comes to, or so long after its start, in times of what a start takes. */
export type Death =
  | { readonly kind: 'points'; readonly at: readonly string[] }
  | { readonly kind: 'clock'; readonly after: number }

/** Points that every life comes to soon, and how often, about. */
const early = {
  'journal.write': 40,
  'journal.written': 40,
  'journal.durable': 40,
  'epoch.begin': 1,
  'epoch.begun': 1,
  'holder.named': 1,
  'file.write': 4,
  'file.written': 4,
  'page.write': 12,
  'page.written': 12,
  'inbox.append': 3,
  'inbox.appended': 3,
  'session.write': 20,
  'session.written': 20,
} as const satisfies Partial<Record<Point, number>>

/** Points that take something to happen first: a claim, a decision, a merge, a file that grew. */
const late = [
  'journal.roll',
  'page.move',
  'page.moved',
  'inbox.rotate',
  'inbox.rotated',
  'drop.taken',
  'drop.moved',
  'session.rotate',
  'session.rotated',
  'ref.move',
  'ref.moved',
  'effect.intent',
  'effect.intended',
  'effect.act',
  'effect.acted',
  'effect.done',
  'effect.ended',
  'compact.saved',
  'compact.asked',
  'memory.write',
  'memory.written',
] as const satisfies readonly Point[]

type Known = keyof typeof early | (typeof late)[number]
/** Fails to compile when a point is in none of the lists. */
const all: readonly Known[] = [] as readonly Point[]
void all

/**
 * Deaths by the random numbers, and by what was died at before in this world (`times`): those points first that were hit least,
 * and of the late ones several at once, so that what the moment brings comes first.
 */
export const deaths = (random: Random, times: (point: string) => number): (() => Death) => {
  const leastHit = <P extends string>(points: readonly P[]): P[] =>
    random.shuffled(points).sort((a, b) => times(a) - times(b))
  return () => {
    const how = random.next()
    if (how < 0.1) return { kind: 'clock', after: random.next() * 2 }
    if (how < 0.2) return { kind: 'points', at: [`*:${1 + Math.floor(random.next() ** 2 * 250)}`] }
    if (how < 0.5) {
      const point = random.pick(leastHit(Object.keys(early) as (keyof typeof early)[]).slice(0, 3))
      return { kind: 'points', at: [`${point}:${1 + Math.floor(random.next() ** 2 * early[point])}`] }
    }
    const some = leastHit(late).slice(0, 6)
    return { kind: 'points', at: some.map(point => `${point}:${1 + Math.floor(random.next() ** 3 * 3)}`) }
  }
}
