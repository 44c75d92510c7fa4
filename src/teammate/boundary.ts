import { endsToTell } from '../agent/commands.ts'
import type { Item } from '../agent/items.ts'
import type { Boundary } from '../agent/loop.ts'
import type { Session } from '../agent/session.ts'
import type { Choice, Intake } from './intake.ts'
import type { LifeOptions } from './life-options.ts'
import type { Stopping } from './shutdown.ts'
import { note } from './words.ts'

export interface BoundaryOptions {
  readonly session: Session
  readonly intake: Intake
  readonly stopping: Stopping
  /** What is to be told besides, and what the turn begins with: taken from here. */
  readonly notes: string[]
  readonly opening: Item[]
  /** What changed of its skills since it was asked last. */
  readonly skillNews?: LifeOptions['skillNews']
  /** A person agreed to its end. */
  readonly onStop: (reason: string) => void
}

/**
 * What a boundary brings: the ends of background commands, what is to be told, what the turn begins with, mail (`chosen`, or what
 * there is).
 */
export const boundary = async (o: BoundaryOptions, chosen: Choice | null): Promise<Boundary> => {
  const { session, intake, stopping, notes, opening, skillNews, onStop } = o
  const choice = chosen ?? (await intake.next(session.mail))
  const mail = choice ? await Promise.all(choice.picked.map(each => intake.item(each))) : []
  const stops = choice ? await stopping.told(choice) : null
  if (stops !== null) onStop(stops)
  const ends = endsToTell(session.commands)
  const told = [skillNews?.() ?? [], notes.splice(0)].flat().map(note)
  const items = [...ends.items, ...told, ...opening.splice(0), ...mail]
  if (!choice) return { items, ended: ends.ended }
  const indexes = choice.picked.map(({ index }) => index)
  const taken = () => intake.acknowledge(choice.mark.upTo, { turn: session.context.turn, indexes })
  return { items, ended: ends.ended, mail: choice.mark, taken }
}
