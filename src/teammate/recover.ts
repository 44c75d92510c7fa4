import type { Session } from '../agent/session.ts'
import type { Call } from '../protocol/rpc.ts'
import type { AssignedTask } from '../protocol/thread.ts'
import type { Budget } from './budget.ts'
import type { Chapters } from './chapters.ts'
import type { LifeOptions } from './life-options.ts'
import type { Parking } from './parking.ts'
import type { Voice } from './voice.ts'
import { interruptedNote } from './words.ts'

/** What a life begins with: see `Life` for each. `goesOn`: with something but a task. */
export interface Recovered {
  readonly known: Pick<AssignedTask, 'id' | 'branch'> | null
  readonly broken: string | null
  readonly goesOn: boolean
}

/** After a crash: what the journal says, held against what the holder says. */
export const recover = async (
  o: LifeOptions,
  parts: { chapters: Chapters; parking: Parking; budget: Budget; voice: Voice; notes: string[] },
): Promise<Recovered> => {
  const { call, member, session } = o
  const { chapters, parking, budget, voice, notes } = parts
  const { context } = session
  voice.usage()
  const news = await sessionNews(call, member.name, session)
  if (news) voice.event(news.event, { text: news.text })
  for (const id of session.lost)
    voice.event('background.ended', { id, how: 'was ended with the thread that ran it: how far it came is not known' })
  if (session.isNew) session.begin(o.prefix(), false)
  if (context.task) {
    const { id } = context.task.item
    const now = await standing(call, member.name, id)
    if (typeof now !== 'string') return { known: { id, ...now }, broken: null, goesOn: false }
    chapters.close(`left while the thread was down: ${now}`)
    // It may be what the task had brought into the conversation that ended the thread.
    chapters.isSpoiled = now === 'failed'
    notes.push(`You were restarted. Task ${id} is not in your hands any more.`)
  }
  await parking.resume(null)
  const broken = await budget.rests()
  if (context.inTurn) notes.push(interruptedNote(session.wasInterrupted))
  return { known: null, broken, goesOn: broken !== null || parking.isDue || context.inTurn }
}

/** Is this task, which the journal of the session has open, still in the hands of `name`, by the holder's word? Else how it stands. */
const standing = async (call: Call, name: string, id: string): Promise<{ branch: string | null } | string> => {
  const found = await call('task.get', { id })
  const task = found.ok ? found.value.task : null
  if (task?.status === 'in_progress' && task.owner === name && task.claimed === null) return { branch: task.branch }
  return task === null ? 'it is gone' : task.claimed ? 'claimed done' : task.status
}

/** What is to be told of a session that was just opened: that an earlier one is gone, by the holder's word, or that its end was cut. */
const sessionNews = async (
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
