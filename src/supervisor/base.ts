import type { Core } from './core.ts'

/** A base that moved is brought into the trunk, before anything starts there. A conflict is the human's: nothing moves. */
export const bringBase = async ({ hub, store }: Core, problem: (text: string | null) => void): Promise<void> => {
  if (!hub) return
  const seen = await hub.refreshBase()
  if (!seen.ok) return problem(`the base branch could not be read: ${seen.fault.message}`)
  const { how, moved, to, files } = seen.value
  if (how === 'conflict')
    return problem(
      `the base ${hub.baseName} moved to ${to.slice(0, 12)} and conflicts with the trunk in ${files.join(', ')}: land or settle it by hand`,
    )
  problem(null)
  if (moved) store.note({ event: 'base.moved', by: 'supervisor', info: { ...seen.value } })
}
