import { createHash } from 'node:crypto'
import type { TurnEnd } from '../agent/loop.ts'
import { wellFormed } from '../lib/text.ts'
import type { Call } from '../protocol/rpc.ts'
import type { Voice } from './voice.ts'
import { sayFault } from './words.ts'

/**
 * The words that a turn ends with, sent to the person whose message it took in as the reply to that message. Its id derives
 * from who answers and the message, so a turn that is ended again after a crash makes no second reply, and a message to all
 * gets one from each.
 */
export const answerHuman = async (call: Call, voice: Voice, message: string, text: string): Promise<void> => {
  const id = createHash('sha256').update(`${voice.name}\n${message}`).digest('hex').slice(0, 24)
  const sent = await call('message.send', {
    to: 'user',
    type: 'reply',
    replyTo: message,
    content: wellFormed(text),
    id: `msg_reply_${id}`,
  })
  if (!sent.ok && sent.fault.code !== 'conflict')
    voice.event('warning', { text: `the reply to ${message} could not be sent: ${sent.fault.message}` })
}

/** Why a turn for mail came to no end of its own; null where it did, or is only put off. `over`: why it was stopped as going nowhere. */
export const unanswered = (end: TurnEnd, over: string | null, rounds: number): string | null => {
  if (end.how === 'fault') return sayFault(end.fault)
  if (over !== null) return `it got nowhere and went on: ${over}`
  return end.how === 'rounds' ? `${rounds} rounds went by without an end (limits.rounds)` : null
}
