import * as z from 'zod'
import { cut } from '../lib/text.ts'

/** Whose word an item of the context is. Only the request ledger carries consent, whatever a message says. */
export const Origin = z.enum(['human', 'peer', 'supervisor', 'file'])
export type Origin = z.infer<typeof Origin>

/** What enters the context between turns. Mail carries its index in the inbox's log. */
export const Item = z.discriminatedUnion('k', [
  z.object({
    k: z.literal('task'),
    id: z.string(),
    attempt: z.number().int(),
    title: z.string(),
    description: z.string(),
    /** Why the last claim was sent back; null on a first attempt. */
    returned: z.string().nullable(),
  }),
  z.object({
    k: z.literal('message'),
    index: z.number().int(),
    id: z.string(),
    from: z.string(),
    origin: Origin,
    type: z.string(),
    content: z.string(),
    replyTo: z.string().optional(),
  }),
  z.object({
    k: z.literal('request'),
    index: z.number().int(),
    id: z.string(),
    type: z.string(),
    from: z.string(),
    title: z.string(),
    body: z.string(),
  }),
  z.object({ k: z.literal('note'), text: z.string() }),
  /** What a subagent is asked: nothing stands beside it, so it needs no frame. */
  z.object({ k: z.literal('prompt'), text: z.string() }),
  /** What the teammate itself made of the conversation that this takes the place of. */
  z.object({ k: z.literal('summary'), text: z.string() }),
])
export type Item = z.infer<typeof Item>
export type TaskItem = Extract<Item, { k: 'task' }>

/** Contents cannot forge the frame they stand in. */
const body = (text: string): string => text.replace(/<(?=\/?(?:task|message|request|note|returned)\b)/gi, '&lt;')

const attribute = (text: string): string =>
  text.replace(/&/g, '&amp;').replace(/"/g, '&quot;').replace(/</g, '&lt;').replace(/\s+/g, ' ')

const one = (item: Item): string => {
  switch (item.k) {
    case 'task': {
      const returned = item.returned === null ? '' : `<returned>${body(item.returned)}</returned>\n`
      return `<task id="${attribute(item.id)}" attempt="${item.attempt}">\n${returned}# ${body(item.title)}\n\n${body(item.description)}\n</task>`
    }
    case 'message': {
      const reply = item.replyTo === undefined ? '' : ` reply_to="${attribute(item.replyTo)}"`
      return `<message id="${attribute(item.id)}" from="${attribute(item.from)}" origin="${item.origin}" type="${attribute(item.type)}"${reply}>\n${body(item.content)}\n</message>`
    }
    case 'request':
      return `<request id="${attribute(item.id)}" type="${attribute(item.type)}" from="${attribute(item.from)}">\n${body(item.title)}\n${body(item.body)}\n</request>`
    case 'prompt':
      return item.text
    case 'note':
      return `<note>${body(item.text)}</note>`
    case 'summary':
      return `<summary>\n${body(item.text).replace(/<(?=\/?summary\b)/gi, '&lt;')}\n</summary>`
  }
}

/** The items of one boundary as one user message. A function of the items alone, so that a rebuilt context is the same. */
export const renderItems = (items: readonly Item[]): string => items.map(one).join('\n')

/** At most `max` characters of `text`, ending with where the rest is. */
export const shorten = (text: string, max: number, rest: string): string =>
  text.length <= max ? text : `${cut(text, max)}\n(cut after ${max} of ${text.length} characters; ${rest})`
