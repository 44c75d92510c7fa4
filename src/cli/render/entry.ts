import type { Entry } from '../../agent/entry.ts'
import type { Item } from '../../agent/items.ts'
import { count, indented, oneLine, type Paint, when } from './text.ts'

const someLines = 12

/** One step of a session as text; null for what only the program needs. */
export const renderEntry = (
  entry: Entry,
  o: { now: number; paint: Paint; full: boolean; items: (items: readonly Item[]) => string },
): string | null => {
  const { paint: c } = o
  const head = (mark: string, text: string) => `${c.dim(when(entry.at, o.now))} ${mark} ${text}`
  const body = (text: string): string => {
    const lines = indented(text.trimEnd(), '    ').split('\n')
    if (o.full || lines.length <= someLines) return lines.join('\n')
    return [
      ...lines.slice(0, someLines),
      c.dim(`    … ${lines.length - someLines} lines more, --full shows them`),
    ].join('\n')
  }
  switch (entry.k) {
    case 'session':
      return head(
        '━',
        entry.keep ? 'the rules were read anew' : `a context begins, ${count(entry.system.length)} characters of rules`,
      )
    case 'turn':
      return entry.step === 'start'
        ? head('▶', c.bold(`turn ${entry.turn}`))
        : head('■', `turn ${entry.turn} ${entry.how ?? 'ended'}`)
    case 'items':
      return entry.items.length === 0 ? null : `${head('←', 'told')}\n${body(o.items(entry.items))}`
    case 'assistant': {
      const used =
        entry.usage === null ? '' : c.dim(` (${count(entry.usage.input)} in, ${count(entry.usage.output)} out)`)
      const calls = entry.calls.map(
        call => `    ${c.cyan(call.name)} ${oneLine(call.arguments ?? call.fault ?? '', o.full ? 10_000 : 160)}`,
      )
      const text = entry.text.trim() === '' ? [] : [body(entry.text)]
      return [`${head('→', `says${used}`)}`, ...text, ...calls].join('\n')
    }
    case 'blank':
      return head('→', `says nothing${c.dim(` (${count(entry.usage.input)} in, ${count(entry.usage.output)} out)`)}`)
    case 'spent': {
      const { input, output } = entry.usage
      return head('→', `its subagent ${entry.sub} says${c.dim(` (${count(input)} in, ${count(output)} out)`)}`)
    }
    case 'tool.start':
      return null
    case 'tool.result':
      return `${head(entry.isError ? c.red('✗') : '✓', entry.name)}\n${body(entry.text)}`
    case 'dropped':
      return head('…', `${entry.ids.length} old results were dropped to save room`)
    case 'compacted': {
      const used = c.dim(` (${count(entry.usage.input)} in, ${count(entry.usage.output)} out)`)
      return `${head('━', `the conversation was put together (${entry.why})${used}`)}\n${body(o.items(entry.items))}`
    }
    case 'todo':
      return `${head('☰', 'todo')}\n${body(entry.items.map(item => `${item.status === 'completed' ? '✓' : item.status === 'in_progress' ? '▶' : '·'} ${item.text}`).join('\n'))}`
    case 'command.start':
      return head('◆', `${entry.id} starts: ${oneLine(entry.command, o.full ? 10_000 : 160)}`)
    case 'command.end':
      return `${head('◇', `${entry.id} ${oneLine(entry.how, 300)}`)}${entry.tail === '' ? '' : `\n${body(entry.tail)}`}`
    case 'task.end':
      return head('■', `task ${entry.task} ${oneLine(entry.how, 300)}`)
  }
}
