import type { JournalEntry } from '../../protocol/event.ts'
import { Message } from '../../protocol/message.ts'
import { isLease, Request } from '../../protocol/request.ts'
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
    const request = entry.put?.[0] === 'requests' ? Request.safeParse(entry.put[3]).data : undefined
    if (request && request.type !== 'merge_request') return this.#request(entry, request)
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
          what: `${this.#proven(entry, key)}: ${entry.info?.ok === true ? 'green' : 'red'}`,
        }
      case 'message.stored':
        return this.#message(entry)
      case 'teammate.stopped':
        return { who: entry.by, what: `stopped ${String(entry.info?.name ?? '')}`.trim() }
      default:
        return null
    }
  }

  #proven({ info }: JournalEntry, key: string): string {
    if (info?.trunk !== undefined) return 'the trunk alone'
    if (info?.task !== undefined && info.base !== undefined) return `what ${key} accepts, where it started`
    const tasks = Array.isArray(info?.tasks) ? info.tasks.map(id => this.#keys.get(String(id)) ?? String(id)) : [key]
    return `${info?.base === undefined ? tasks.join(', ') : 'the moved base'} on the merged result`
  }

  /** What is asked and what is decided; a merge is told with its task. */
  #request(entry: JournalEntry, request: Request): Line | null {
    const { id, type, from, to, body, title } = request
    const about =
      type === 'permission_request' ? request.data.command : isLease(request) ? request.data.what.join(' ') : body
    const what = `${type.replace('_request', '')} ${id}`
    if (entry.event === 'request.opened')
      return {
        who: from === 'human' ? 'you' : from,
        what: `asks ${to === 'human' ? 'you' : to}, ${what}: ${about || title}`,
      }
    if (entry.event === 'request.decided')
      return {
        who: entry.by === 'human' ? 'you' : entry.by,
        what: `${request.status === 'approved' && type === 'question' ? 'answers' : request.status === 'approved' ? 'approves' : 'rejects'} ${what}${request.reason ? `: ${request.reason}` : ''}`,
      }
    return null
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
