import type { InboxItem } from '../../protocol/rpc.ts'
import { indented, oneLine, type Paint, when } from './text.ts'

/** How far a message got, in words. */
export const renderReceipt = ({ receipt, turn }: InboxItem): string =>
  `${receipt === 'acted on' && turn !== null ? 'acted on, in context' : receipt}${turn === null ? '' : ` at turn ${turn}`}`

/** The request that a message is about, and who asks, where the supervisor tells it for somebody. */
const request = ({ stored: { message, origin } }: InboxItem): string | null => {
  const { requestId, data, from } = message
  if (requestId === undefined) return null
  const asker = origin === 'daemon' && message.type === 'request' ? data?.from : undefined
  return typeof asker === 'string' && asker !== from ? `${requestId} of ${asker}` : requestId
}

/** Messages of one sender as text, with how far each got. */
export const renderSent = (items: readonly InboxItem[], now: number, c: Paint): string =>
  items
    .map(item => {
      const { message } = item.stored
      const facts = [message.type === 'info' ? null : message.type, renderReceipt(item)].filter(fact => fact !== null)
      return `→ ${c.bold(message.to)} ${c.dim(when(message.timestamp, now))} ${c.dim(facts.join(', '))} ${c.dim(oneLine(message.id, 60))}\n${indented(message.content, '    ')}`
    })
    .join('\n')

/** Messages as text; those after `cursor` are marked as not taken yet. A claimed sender is shown as a claim. */
export const renderMail = (items: readonly InboxItem[], cursor: number, now: number, c: Paint): string =>
  items
    .map(item => {
      const { index, stored } = item
      const { message, origin } = stored
      const sender = origin === 'file' ? `"${oneLine(message.from, 60)}" (by file)` : oneLine(message.from, 60)
      const facts = [
        message.type === 'info' ? null : message.type,
        message.urgent ? c.red('urgent') : null,
        request(item),
        message.replyTo === undefined ? null : `answers ${oneLine(message.replyTo, 40)}`,
        renderReceipt(item),
      ].filter(fact => fact !== null)
      const mark = index > cursor ? c.green('●') : ' '
      const title = `${mark} ${c.bold(sender)} ${c.dim(when(message.timestamp, now))} ${c.dim(facts.join(', '))} ${c.dim(oneLine(message.id, 60))}`
      return `${title}\n${indented(message.content, '    ')}`
    })
    .join('\n')
