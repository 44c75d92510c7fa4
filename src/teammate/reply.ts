import { createHash } from 'node:crypto'
import { wellFormed } from '../lib/text.ts'
import type { Call } from '../protocol/rpc.ts'
import type { Voice } from './voice.ts'

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
