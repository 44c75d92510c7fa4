import { type Core, keepWork } from './core.ts'

/** What a stopped teammate had in hand goes back to the others, its commits kept in the hub. */
export const releaseInHand = async (core: Core, name: string, why: string): Promise<void> => {
  const task = core.tasks.inHand(name)?.value
  if (!task) return
  await keepWork(core, task)
  // It may have been cancelled meanwhile, and given to somebody else.
  if (core.tasks.inHand(name)?.value.id !== task.id) return
  core.tasks.move(task.id, 'supervisor', { move: 'release', reason: why })
}
