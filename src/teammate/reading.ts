import { isWaiting } from '../protocol/request.ts'
import type { Choice, Intake } from './intake.ts'
import type { LifeOptions } from './life-options.ts'

export const freshForReview =
  'You are asked to read the work of somebody else and to decide on it. What you did before is put away for that; nothing of it matters here. Judge by what you read, decide with the request tool, then end your turn.'

/** The next review that waits for this teammate. What was settled before it came to that is put aside on the way. */
export const nextReview = async (
  { session, call, member }: Pick<LifeOptions, 'session' | 'call' | 'member'>,
  intake: Intake,
): Promise<Choice | null> => {
  for (;;) {
    const choice = await intake.review(session.mail)
    if (!choice) return null
    const id = choice.picked[0]?.stored.message.requestId ?? ''
    const found = await call('request.get', { id })
    if (!found.ok && found.fault.code !== 'unknown') return null
    const request = found.ok ? found.value.request : null
    if (request && isWaiting(request) && request.status === 'pending' && request.to === member.name) return choice
    session.take([{ k: 'note', text: `${id} was settled before you came to read it.` }], choice.mark)
    await intake.acknowledge(choice.mark.upTo)
  }
}
