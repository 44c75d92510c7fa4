import { cut } from '../lib/text.ts'
import type { Command, Commands, Entry, NewEntry } from './entry.ts'
import type { Item } from './items.ts'

/** A command that was running when its thread ended. What became of it nobody saw; it does not live any more. */
const lost = 'was running when you were interrupted, and was ended by that: how far it came is not known'

/**
 * The background commands of a session as its journal tells of them: those that run, and those of whose end the teammate was not
 * told yet. Each end is told once: the entry that tells it takes it off this list.
 */
export class OpenCommands {
  #count = 0
  readonly #open = new Map<string, Command>()

  /** How many were started so far. */
  get count(): number {
    return this.#count
  }

  get running(): readonly Command[] {
    return [...this.#open.values()].filter(({ end }) => end === null)
  }

  /** Those of whose end nothing was told yet, in the order in which they were started. */
  get ended(): readonly Command[] {
    return [...this.#open.values()].filter(({ end }) => end !== null)
  }

  /** For the entry that begins a context: nothing where there never was one. */
  get carried(): { commands?: Commands } {
    return this.#count === 0 ? {} : { commands: { count: this.#count, open: [...this.#open.values()] } }
  }

  apply(entry: Entry): void {
    switch (entry.k) {
      case 'session':
        if (!entry.commands) return
        this.#count = entry.commands.count
        this.#open.clear()
        for (const command of entry.commands.open) this.#open.set(command.id, command)
        return
      case 'command.start': {
        const { id, command, task, log, at } = entry
        this.#count = Math.max(this.#count + 1, numberOf(id))
        this.#open.set(id, { id, command, task, log, since: at, end: null })
        return
      }
      case 'command.end': {
        const command = this.#open.get(entry.id)
        if (command) this.#open.set(entry.id, { ...command, end: { how: entry.how, tail: entry.tail } })
        return
      }
      case 'items':
      case 'tool.result':
        for (const id of entry.ended ?? []) this.#open.delete(id)
        return
      default:
        return
    }
  }

  /** When a session is opened nothing runs any more. */
  settled(): NewEntry[] {
    return this.running.map(({ id }) => ({ k: 'command.end', v: 2, id, how: lost, tail: '' }))
  }
}

/** Of `bg-7`. */
const numberOf = (id: string): number => Number(/\d+$/.exec(id)?.[0] ?? 0)

/** Of a command a person or a model is shown so much. */
export const shownCommand = (command: string): string => cut(command.replace(/\s+/g, ' ').trim(), 120)

/** The end of a command, for the model. */
export const endText = ({ id, command, log, end }: Command): string =>
  [
    `background command ${id} (${shownCommand(command)}) ${end?.how ?? 'runs'}`,
    // Its own words stand behind a mark: a note is the program's word, and what a command says is not.
    ...(end?.tail ? [end.tail.replace(/^/gm, '| ')] : []),
    ...(log === null ? [] : [`(all of its output: ${log})`]),
  ].join('\n')

/** The ends that were not told yet, as a boundary brings them. */
export const endsToTell = (commands: OpenCommands): { items: Item[]; ended: string[] } => ({
  items: commands.ended.map(command => ({ k: 'note', text: endText(command) })),
  ended: commands.ended.map(({ id }) => id),
})
