import type { Task } from '../protocol/task.ts'
import { type Core, isLive } from './core.ts'
import { rejectedAtMost, unfit } from './schedule.ts'

/** Why nobody on the team can be given this ready task as things stand, in a sentence with what to do; null when somebody can. */
export const stranded = (core: Core, task: Task): string | null => {
  const fitting = core.members.filter(member => unfit(task, member, () => false) === null)
  if (fitting.some(({ name }) => isLive(core, name))) return null
  const what = `task ${task.id} "${task.title}"`
  const [first] = fitting
  if (first)
    return `${what} waits for ${fitting.map(({ name }) => name).join(' or ')}, who does not run (team restart ${first.name})`
  if (task.assignee !== null && !core.roster.has(task.assignee))
    return `${what} can be given to nobody: it is assigned to ${task.assignee}, who is not on the team`
  if (task.assignee !== null && task.notFor?.includes(task.assignee))
    return `${what} can be given to nobody: it is assigned to ${task.assignee}, whose work on it was rejected ${rejectedAtMost} times (team task cancel ${task.id} and team task retry ${task.id} give it to ${task.assignee} once more)`
  const reasons = core.members.flatMap(member => unfit(task, member, () => false) ?? [])
  const why = reasons.find(reason => reason.startsWith('it needs')) ?? reasons[0] ?? 'nobody is there'
  return `${what} can be given to nobody: ${why}`
}
