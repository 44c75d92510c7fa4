import { join } from 'node:path'
import { shownCommand } from '../agent/commands.ts'
import { Compaction, type Retold } from '../agent/compact.ts'
import type { Item } from '../agent/items.ts'
import { usualWindow } from '../agent/renew.ts'
import { todoRows } from '../agent/todo.ts'
import { writeTranscript } from '../agent/transcript.ts'
import { iso } from '../lib/clock.ts'
import { isWaiting, type Request } from '../protocol/request.ts'
import type { LifeOptions } from './life-options.ts'
import { note } from './words.ts'

/** So many of its own requests are told again. */
const mostRequests = 20

/** How the conversation of a life is put together; null for a runbook, which goes by what was called and has no use for a summary. */
export const compactionOf = (o: LifeOptions): Compaction | null => {
  const { post, session, member, clock, root, tools } = o
  const { provider, contextWindow, maxOutputTokens } = member.model
  if (provider === 'runbook') return null
  return new Compaction({
    session,
    schemas: tools.map(tool => tool.schema),
    window: contextWindow ?? usualWindow,
    answer: maxOutputTokens,
    retell: () => retell(o),
    save: () => {
      const task = session.context.task?.item
      return writeTranscript(join(root, '.transcripts'), {
        teammate: member.name,
        task: task?.id ?? null,
        title: task?.title ?? `mail of ${member.name}`,
        how: null,
        at: iso(clock.wall()),
        messages: session.whole(),
      })
    },
    on: {
      done: what => post({ t: 'event', event: 'context.compacted', info: { name: member.name, ...what } }),
      failed: (why, last) =>
        post({
          t: 'event',
          event: 'warning',
          info: {
            name: member.name,
            text: `its conversation could not be put together: ${why}${last ? '; that is not tried again before it begins anew' : '; it is tried again later'}`,
          },
        }),
    },
  })
}

/** What the records say of what is open, whatever the summary says. */
const retell = async ({ call, member, session, prefix }: LifeOptions): Promise<Retold | null> => {
  const listed = await call('request.list', {})
  if (!listed.ok) return null
  const open = listed.value.requests.filter(isWaiting)
  const own = open.filter(({ from }) => from === member.name).slice(-mostRequests)
  const items: Item[] = open
    .filter(({ to, from }) => to === member.name && from !== member.name)
    .flatMap(request => seen(session.context.mail, request) ?? [])
  if (own.length > 0) items.push(note(`Requests of yours that are open:\n${own.map(line).join('\n')}`))
  const { running } = session.commands
  if (running.length > 0)
    items.push(
      note(
        `Background commands that run: ${running.map(one => `${one.id} (${shownCommand(one.command)})`).join(', ')}`,
      ),
    )
  const { todo } = session
  if (todo.length > 0) items.push(note(`Your todo list:\n${todoRows(todo)}`))
  return { system: prefix(), items }
}

/** As it entered the context, with what was shown of it there. One that has not entered yet does so as mail. */
const seen = (mail: readonly Item[], { id }: Request): Item | undefined =>
  mail.findLast(item => item.k === 'request' && item.id === id)

const line = ({ id, type, to, status, title }: Request): string =>
  `${id} ${type} to ${to}, ${status === 'needs_info' ? 'you were asked about it and have to answer' : status}: ${title}`
