import * as z from 'zod'

/** What is read of a chat-completions request; everything else in it is ignored. */
const Content = z.union([z.string(), z.array(z.looseObject({ text: z.string().optional() })), z.null()]).optional()
const Call = z.looseObject({ id: z.string(), function: z.looseObject({ name: z.string(), arguments: z.string() }) })
const ChatMessage = z.looseObject({
  role: z.string(),
  content: Content,
  tool_calls: z.array(Call).nullish(),
  tool_call_id: z.string().optional(),
})
export const ChatRequest = z.looseObject({
  model: z.string().default('runbook'),
  messages: z.array(ChatMessage).min(1),
  tools: z.array(z.looseObject({ function: z.looseObject({ name: z.string() }).optional() })).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
})
export type ChatRequest = z.infer<typeof ChatRequest>

export interface Made {
  readonly id: string
  readonly name: string
  readonly args: Readonly<Record<string, unknown>>
  /** What the tool returned; null while it has not. */
  readonly result: string | null
}

export interface TaskItem {
  readonly id: string
  /** Why it was sent back; null when it was not. */
  readonly returned: string | null
  readonly title: string
  /** Title and description, as they were written. */
  readonly text: string
}

export interface RequestItem {
  readonly id: string
  readonly type: string
  /** Whether a decision on it was tried already, with whatever outcome. */
  readonly tried: boolean
}

/** A conversation as far as the runbook needs it. */
export interface Conversation {
  /** The latest task told of, unless a later note says that it was taken away. */
  readonly task: TaskItem | null
  /** Calls since that task was told, in order. */
  readonly calls: readonly Made[]
  /** Calls since the last user message. */
  readonly lately: readonly Made[]
  readonly requests: readonly RequestItem[]
  /** Its own requests that somebody asked back about since that task was told, and that it has not answered. */
  readonly questions: readonly string[]
  /** What the supervisor said of decided requests, by their ids. */
  readonly decisions: ReadonlyMap<string, string>
  /** Senders of the messages in the last user message. */
  readonly mail: readonly string[]
  /** How many calls there were in all. */
  readonly made: number
  /** Names of the tools on offer. */
  readonly tools: ReadonlySet<string>
}

/** Reads a request's messages. Only user messages carry items: nothing that a tool printed is taken for one. */
export const readConversation = (request: ChatRequest): Conversation => {
  const results = new Map<string, string>()
  for (const message of request.messages)
    if (message.role === 'tool' && message.tool_call_id !== undefined)
      results.set(message.tool_call_id, plain(message.content))

  let task: TaskItem | null = null
  let calls: Made[] = []
  let lately: Made[] = []
  let mail: string[] = []
  let made = 0
  const requests = new Map<string, RequestItem>()
  const decisions = new Map<string, string>()
  const questions = new Set<string>()
  for (const message of request.messages) {
    if (message.role === 'user') {
      lately = []
      mail = []
      for (const item of items(plain(message.content))) {
        if (item.kind === 'task') {
          task = taskItem(item)
          calls = []
          questions.clear()
        } else if (item.kind === 'message') {
          const { from = 'someone', origin, type } = item.attributes
          const id = /^req_\w+/.exec(item.body)?.[0]
          const questioned = /^\S+ asks about (req_\w+) /.exec(item.body)?.[1]
          if (type === 'decision' && origin === 'supervisor' && questioned !== undefined) questions.add(questioned)
          if ((type === 'decision' || type === 'info') && origin === 'supervisor' && id !== undefined)
            decisions.set(id, unescaped(item.body))
          else mail.push(from)
        }
        if (item.kind === 'note' && task && saysTaken(item.body, task.id)) task = null
        else if (item.kind === 'request') {
          const { id = '', type = '' } = item.attributes
          requests.set(id, { id, type, tried: false })
        }
      }
    }
    for (const call of message.role === 'assistant' ? (message.tool_calls ?? []) : []) {
      const args = argumentsOf(call.function.arguments)
      const one = { id: call.id, name: call.function.name, args, result: results.get(call.id) ?? null }
      made++
      calls.push(one)
      lately.push(one)
      if (one.name === 'request' && args.action === 'answer') questions.delete(String(args.id))
      const asked = one.name === 'request' && requests.get(String(args.id))
      if (asked) requests.set(asked.id, { ...asked, tried: true })
    }
  }
  const tools = new Set((request.tools ?? []).flatMap(tool => tool.function?.name ?? []))
  const open = [...questions].filter(id => !decisions.has(id))
  return { task, calls, lately, requests: [...requests.values()], questions: open, decisions, mail, made, tools }
}

interface Item {
  readonly kind: 'task' | 'message' | 'request' | 'note'
  readonly attributes: Readonly<Record<string, string>>
  readonly body: string
}

/** The items of a user message. A closing tag inside an item is written `&lt;/…`, so the first one closes it. */
const items = (text: string): Item[] => {
  const found: Item[] = []
  for (const match of text.matchAll(/^<(task|message|request|note)\b([^>\n]*)>([\s\S]*?)<\/\1>/gm)) {
    const [, kind, attributes = '', body = ''] = match
    found.push({
      kind: kind as Item['kind'],
      attributes: Object.fromEntries(
        [...attributes.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, name = '', value = '']) => [name, attribute(value)]),
      ),
      body: body.replace(/^\n|\n$/g, ''),
    })
  }
  return found
}

const taskItem = (item: Item): TaskItem => {
  const returned = /^<returned>([\s\S]*?)<\/returned>\n?/.exec(item.body)
  const text = unescaped(returned ? item.body.slice(returned[0].length) : item.body)
  return {
    id: item.attributes.id ?? '',
    returned: returned ? unescaped(returned[1] ?? '') : null,
    title: /^#\s+(.*\S)\s*$/m.exec(text)?.[1] ?? `task ${item.attributes.id ?? ''}`,
    text,
  }
}

const unescaped = (text: string): string => text.replace(/&lt;(?=\/?(?:task|message|request|note|returned)\b)/gi, '<')

/** Whether a note tells that the task is not in hand any more. */
const saysTaken = (note: string, id: string): boolean =>
  note.includes(`ask ${id} `) && /\b(?:taken (?:away|from you|out of your hands)|not in your hands)\b/i.test(note)

const attribute = (text: string): string =>
  text.replaceAll('&lt;', '<').replaceAll('&quot;', '"').replaceAll('&amp;', '&')

const plain = (content: z.infer<typeof Content>): string =>
  typeof content === 'string' ? content : (content ?? []).map(part => part.text ?? '').join('')

const argumentsOf = (json: string): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    // Another model's broken call: it stands in the history and says nothing to a runbook.
    return {}
  }
}
