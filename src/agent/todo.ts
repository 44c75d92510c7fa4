import { cut } from '../lib/text.ts'
import type { Session } from './session.ts'
import type { TodoItem } from './tool.ts'

const signs = { pending: '[ ]', in_progress: '[>]', completed: '[x]' } as const

/** One line an item. */
export const todoRows = (items: readonly TodoItem[]): string =>
  items.map(({ id, text, status }) => `${signs[status]} ${id} ${text}`).join('\n')

/** Rounds without touching it after which the list is told again. */
const patience = 3
const longestReminder = 2000

/**
 * What is told before a round of a list that was left alone for three rounds, and for three more each; null where it is not due.
 * Only of a list that was made for what is in hand now, and has something open.
 */
export const todoReminder = ({ todo, untouched }: Pick<Session, 'todo' | 'untouched'>): string | null => {
  if (untouched === null || untouched === 0 || untouched % patience !== 0) return null
  const open = todo.filter(({ status }) => status !== 'completed')
  if (open.length === 0) return null
  return `You have not touched your todo list for ${untouched} rounds. Open on it:\n${cut(todoRows(open), longestReminder)}\nBring it up to date with the todo tool if it is not, and go on.`
}
