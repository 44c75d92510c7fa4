import type { Session } from '../agent/session.ts'
import { isWaiting } from '../protocol/request.ts'
import type { Call, InboxItem } from '../protocol/rpc.ts'
import type { Choice, Intake } from './intake.ts'
import type { Voice } from './voice.ts'

const find = async (call: Call, name: string, { stored }: InboxItem, type: 'request' | 'decision') => {
  const { message, origin } = stored
  if (message.type !== type || message.requestId === undefined || origin !== 'daemon') return null
  const found = await call('request.get', { id: message.requestId })
  const request = found.ok ? found.value.request : null
  return request?.type === 'shutdown_request' && request.data.teammate === name ? request : null
}

/** Among what came, the request to shut `name` down that still waits for a decision. The ledger's word, not the message's. */
export const askedToStop = async (
  call: Call,
  name: string,
  picked: readonly InboxItem[],
): Promise<{ readonly item: InboxItem; readonly id: string; readonly wholeTeam: boolean } | null> => {
  for (const item of picked) {
    const request = await find(call, name, item, 'request')
    if (request && isWaiting(request)) return { item, id: request.id, wholeTeam: request.data.wholeTeam === true }
  }
  return null
}

/**
 * Why `name` is to end, when among what came is the news that a person approved its shutdown in its place; else null. One that
 * it had already, before it was started again, is only news.
 */
export const toldToStop = async (call: Call, name: string, picked: readonly InboxItem[]): Promise<string | null> => {
  for (const item of picked) {
    const request = await find(call, name, item, 'decision')
    if (request?.status === 'approved' && request.effect?.step !== 'done') return request.reason ?? 'approved'
  }
  return null
}

/**
 * Agrees to end without asking the model, where `name` is asked to among what came (`onlyAll`: only with the whole team).
 * False where it is not asked to.
 */
export const agreeToStop = async (
  o: {
    readonly call: Call
    readonly name: string
    readonly session: Session
    readonly intake: Intake
    readonly voice: Voice
  },
  choice: Choice,
  reason: string,
  onlyAll: boolean,
): Promise<boolean> => {
  const { call, session, intake } = o
  const asked = await askedToStop(call, o.name, choice.first)
  if (!asked || (onlyAll && !asked.wholeTeam)) return false
  const one = intake.only(asked.item, session.mail)
  // A note, not the request itself: a model must not find something to decide later that was decided here.
  session.take(
    [{ k: 'note', text: `You were asked to shut down (${asked.id}) and agreed: nothing was going on.` }],
    one.mark,
  )
  await intake.acknowledge(one.mark.upTo)
  const decided = await call('request.decide', { id: asked.id, decision: 'approve', reason })
  if (!decided.ok) o.voice.event('warning', { text: `${asked.id} could not be approved: ${decided.fault.message}` })
  return true
}
