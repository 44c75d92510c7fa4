import type { Session } from '../agent/session.ts'
import type { Call } from '../protocol/rpc.ts'

/** Is this task, which the journal of the session has open, still in the hands of `name`, by the holder's word? Else how it stands. */
export const standing = async (call: Call, name: string, id: string): Promise<{ branch: string | null } | string> => {
  const found = await call('task.get', { id })
  const task = found.ok ? found.value.task : null
  if (task?.status === 'in_progress' && task.owner === name && task.claimed === null) return { branch: task.branch }
  return task === null ? 'it is gone' : task.claimed ? 'claimed done' : task.status
}

/** What is to be told of a session that was just opened: that an earlier one is gone, by the holder's word, or that its end was cut. */
export const sessionNews = async (
  call: Call,
  name: string,
  session: Session,
): Promise<{ event: 'warning' | 'journal.cut'; text: string } | null> => {
  const { file, cutBytes } = session
  if (cutBytes > 0)
    return { event: 'journal.cut', text: `${cutBytes} bytes of an entry that was never finished were cut from ${file}` }
  if (!session.isNew) return null
  const box = await call('inbox.read', { name, after: 0, limit: 1 })
  if (!box.ok || box.value.cursor === 0) return null
  const text = `the session of ${name} is gone (${file}): its context begins anew, without what was read and done before`
  return { event: 'warning', text }
}
