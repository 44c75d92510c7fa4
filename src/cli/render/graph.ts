import type { TaskShown } from '../../protocol/rpc.ts'
import { taskColour } from './status.ts'
import { oneLine, type Paint } from './text.ts'

/**
 * The DAG as a tree, from what depends on nothing to what depends on it. A task with several dependencies stands in full
 * under the last of them in the order of walking, so that everything above it was shown; elsewhere it is `…`.
 */
export const renderGraph = (tasks: readonly TaskShown[], c: Paint): string => {
  const byId = new Map(tasks.map(task => [task.id, task]))
  const dependants = new Map<string, TaskShown[]>()
  const known = (task: TaskShown) => [...new Set(task.dependsOn)].filter(id => byId.has(id))
  for (const task of tasks) for (const id of known(task)) dependants.set(id, [...(dependants.get(id) ?? []), task])
  const missing = new Map(tasks.map(task => [task.id, known(task).length]))
  const lines: string[] = []
  // An explicit stack, since a chain may be ten thousand long; children are pushed in reverse to be walked in order.
  const stack: { task: TaskShown; branch: string; below: string }[] = tasks
    .filter(task => missing.get(task.id) === 0)
    .map(task => ({ task, branch: '', below: '' }))
    .reverse()
  for (let at = stack.pop(); at; at = stack.pop()) {
    const { task, branch, below } = at
    const left = (missing.get(task.id) ?? 0) - (branch === '' ? 0 : 1)
    missing.set(task.id, left)
    if (left > 0) {
      lines.push(`${c.dim(branch)}${task.id} …`)
      continue
    }
    const also = known(task).length > 1 ? c.dim(` (after ${known(task).join(', ')})`) : ''
    const strangers = task.dependsOn.filter(id => !byId.has(id))
    const waits =
      strangers.length > 0
        ? c.yellow(` (waits for ${strangers.map(id => oneLine(id, 40)).join(', ')}, not there yet)`)
        : ''
    lines.push(`${c.dim(branch)}${task.id} ${taskColour(task.shown, c)} ${oneLine(task.title, 70)}${also}${waits}`)
    const children = dependants.get(task.id) ?? []
    for (let i = children.length - 1; i >= 0; i--) {
      const child = children[i]
      const last = i === children.length - 1
      if (child)
        stack.push({ task: child, branch: `${below}${last ? '└─ ' : '├─ '}`, below: `${below}${last ? '   ' : '│  '}` })
    }
  }
  return lines.join('\n')
}
