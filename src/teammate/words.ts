import { type Item, shorten, type TaskItem } from '../agent/items.ts'
import { withoutHeading } from '../lib/text.ts'
import type { ModelFault } from '../model/model.ts'
import type { AssignedTask } from '../protocol/thread.ts'

/** A description longer than this enters the context cut. */
const longestDescription = 100_000

export const sayFault = (fault: ModelFault): string => `${fault.kind}: ${fault.message}`

/** How often a turn may end without ending the task, before that is given up. */
export const mostReminders = 2
export const reminder = (id: string, asked: readonly string[] = []): string =>
  asked.length > 0
    ? `Your turn ended, but you were asked about ${asked.join(', ')}, and nobody decides before you answer: request with action answer, its id and your answer as body; or withdraw it.`
    : `Your turn ended, but task ${id} is still in your hands. Go on with it, or end it with the task tool: complete with a summary, fail with the reason, or release.`

/** What the model is told that goes in circles. */
export const circling = (text: string, hasTask: boolean): string =>
  `You get nowhere: ${text}. Do it in another way, or ask somebody${hasTask ? ', or end the task: fail or release it, and say why' : ''}. If it goes on like this your turn is ended${hasTask ? ' and the task fails' : ''}.`

/** Why a task fails whose turns end and end. */
export const gaveUp = (times: number, asked: readonly string[]): string =>
  `it ended its turn ${times} times without completing the task${
    asked.length > 0 ? `: it was asked about ${asked.join(', ')} and did not answer, so nobody decides that` : ''
  }`

export const interruptedNote = (tools: readonly string[]): string => {
  const unknown = tools.length > 0 ? ` What ${tools.join(', ')} did is unknown: check before doing it again.` : ''
  return `You were interrupted and restarted; this conversation is as you left it.${unknown} Go on.`
}

/** So many of them are named. */
const mostAbsent = 8

/** A command that fails for what a clone cannot have is no fault of the work. */
const absentText = (absent: readonly string[]): string =>
  absent.length === 0
    ? ''
    : `Not in your clone, since git ignores it, but in the person's workspace: ${absent.slice(0, mostAbsent).join(', ')}${absent.length > mostAbsent ? ` and ${absent.length - mostAbsent} more` : ''}. A command that needs it fails here for that alone. Make it if you can (install what is to be installed); else say so. \`setup\` and \`copy\` in config.json, which are the person's, give it to every clone and check.`

/** The task as it enters the context. */
export const taskItem = (task: AssignedTask): TaskItem => ({
  k: 'task',
  id: task.id,
  attempt: task.attempt,
  title: task.title,
  description: [
    shorten(withoutHeading(task.description, task.title), longestDescription, 'the whole is in TASK.md'),
    task.paths.length > 0 ? `It is about these paths: ${task.paths.join(', ')}` : '',
    task.accept.length > 0
      ? `Each of these must fail without your work and pass with it: ${task.accept.join('; ')}`
      : '',
    absentText(task.absent ?? []),
    task.verify.length > 0 ? `It counts as done when this passes: ${task.verify.join('; ')}` : '',
  ]
    .filter(Boolean)
    .join('\n\n'),
  returned: task.attempt > 1 ? task.error : null,
})

export const note = (text: string): Item => ({ k: 'note', text })
