import type { JournalEntry } from '../../protocol/event.ts'
import { Message } from '../../protocol/message.ts'
import { Task } from '../../protocol/task.ts'
import { keyOf } from './policy.ts'

/** One line of live progress: who, and what. */
export interface Line {
  readonly who: string
  readonly what: string
}

/** What of the journal is worth a line on the screen, in the demo's names for its tasks. */
export class Progress {
  readonly #keys = new Map<string, string>()

  /** The line that this entry is worth; null for most. */
  line(entry: JournalEntry): Line | null {
    const task = entry.put?.[0] === 'tasks' ? Task.safeParse(entry.put[3]).data : undefined
    if (task) this.#keys.set(task.id, keyOf(task))
    const key = task ? keyOf(task) : (this.#keys.get(String(entry.info?.task)) ?? '')
    const owner = task?.owner ?? entry.by
    switch (entry.event) {
      case 'task.created':
        return {
          who: 'dropped',
          what: `${key}${task && task.dependsOn.length > 0 ? `, waits for ${this.#names(task)}` : ''}`,
        }
      case 'task.started':
        return { who: owner, what: `${task && task.returns > 0 ? 'mends' : 'starts'} ${key}` }
      case 'task.claimed':
        return { who: owner, what: `says ${key} is done` }
      case 'task.returned':
        return { who: 'supervisor', what: `sends ${key} back: ${firstLine(task?.error)}` }
      case 'task.completed':
        return { who: 'supervisor', what: `merged ${key}` }
      case 'task.failed':
        return { who: owner, what: `fails ${key}: ${firstLine(task?.error)}` }
      case 'verify.ended':
        return {
          who: 'verify',
          what: `${entry.info?.base === undefined ? key : 'the moved base'} on the merged result: ${entry.info?.ok === true ? 'green' : 'red'}`,
        }
      case 'message.stored':
        return this.#message(entry)
      case 'teammate.stopped':
        return { who: entry.by, what: `stopped ${String(entry.info?.name ?? '')}`.trim() }
      default:
        return null
    }
  }

  #message(entry: JournalEntry): Line | null {
    const stored = entry.append?.[2]
    const message =
      typeof stored === 'object' && stored !== null && 'message' in stored
        ? Message.safeParse(stored.message).data
        : undefined
    if (!message || message.from === 'supervisor') return null
    return { who: message.from, what: `to ${message.to}: ${message.content}` }
  }

  #names(task: Task): string {
    return task.dependsOn.map(id => this.#keys.get(id) ?? id.replace(/\.md$/, '')).join(', ')
  }
}

const firstLine = (text: string | null | undefined): string => (text ?? 'no reason').split('\n')[0] ?? ''
