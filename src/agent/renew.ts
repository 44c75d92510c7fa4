import type { Item } from './items.ts'
import type { Session } from './session.ts'
import { writeTranscript } from './transcript.ts'

/** Tokens, where the window of a model is not known. */
export const usualWindow = 128_000
/** Tasks and messages told again in a context that begins anew, the latest of them, as far as there is room. */
const carried = 20

/** Is the context past half of the window, so that it is to begin anew where that can be? */
export const isLarge = (session: Session, window: number | undefined): boolean =>
  session.context.estimate() > (window ?? usualWindow) / 2

/** Is the context that of somebody else's work, read for a review? Nothing else goes on in it. */
export const isOfReview = ({ context }: Session): boolean => context.mail.some(isReviewItem)
const isReviewItem = (item: Item): boolean => item.k === 'request' && item.type === 'review_request'

/** What is carried over from one context to the next. */
export type Carried = Pick<Session['context'], 'done' | 'mail'>

/**
 * Before a task, or a turn for mail, is where a context may begin anew: when it grew past half the window, or when it `must`
 * (a history that the endpoint refuses). What was done and the last mail are carried over. A changed system message takes effect here too.
 * `before`: what stood in the context that a review put aside.
 * Answers what the teammate is to be told of it, or null. Between turns only.
 */
export const renew = (
  session: Session,
  system: string,
  o: { readonly window: number | undefined; readonly must: boolean; readonly before?: Carried | null },
): string | null => {
  const { context } = session
  if (!o.must && !isLarge(session, o.window)) {
    if (system === context.system) return null
    session.begin(system, true)
    return 'Your rules, team or skills changed: they stand in your system message as they are now.'
  }
  const done = [...(o.before?.done ?? []), ...context.done].slice(-carried)
  const mails = [...(o.before?.mail ?? []), ...context.mail].filter(item => !isReviewItem(item))
  const mail = latest(mails.slice(-carried), (o.window ?? usualWindow) / 8)
  session.begin(system, false)
  const note = (text: string): Item => ({ k: 'note', text })
  session.take([
    note('The conversation before this was put away; NOTES.md and your files are as you left them.'),
    ...(done.length > 0 ? [note(`Done before: ${done.join('; ')}`)] : []),
    ...(mail.length > 0 ? [note('The last mail you had, all of it seen before:')] : []),
    ...mail,
  ])
  return null
}

/** The last of the items that `room` characters hold. */
const latest = (items: readonly Item[], room: number): Item[] => {
  let left = room
  const from = items.findLastIndex(item => {
    left -= JSON.stringify(item).length
    return left < 0
  })
  return items.slice(from + 1)
}

/** The end of the task in the context, if there is one: its transcript is written, then the journal says so. */
export const closeTask = (
  session: Session,
  o: { readonly folder: string; readonly teammate: string; readonly how: string; readonly at: string },
): void => {
  const { task } = session.context
  if (!task) return
  const { id, title } = task.item
  writeTranscript(o.folder, {
    teammate: o.teammate,
    task: id,
    title,
    how: o.how,
    at: o.at,
    messages: session.whole().slice(task.from),
  })
  session.append({ k: 'task.end', task: id, how: o.how })
}
