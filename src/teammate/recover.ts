import type { Call } from '../protocol/rpc.ts'

/** Is this task, which the journal of the session has open, still in the hands of `name`, by the holder's word? Else how it stands. */
export const standing = async (call: Call, name: string, id: string): Promise<{ branch: string | null } | string> => {
  const found = await call('task.get', { id })
  const task = found.ok ? found.value.task : null
  if (task?.status === 'in_progress' && task.owner === name && task.claimed === null) return { branch: task.branch }
  return task === null ? 'it is gone' : task.claimed ? 'claimed done' : task.status
}
