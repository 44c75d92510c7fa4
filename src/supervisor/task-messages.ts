import { asOneLine, cut } from '../lib/text.ts'
import type { Stored } from '../protocol/message.ts'
import type { Core } from './core.ts'
import { taskKey } from './mail.ts'
import type { Notices } from './notices.ts'

/** A message of `type: task` makes a task for its receiver, once: the key derives from the message's id. */
export const takeTaskMessage = (core: Core, notices: Notices, { message, origin }: Stored): void => {
  const isMember = core.roster.has(message.to)
  const [first = ''] = message.content.trim().split('\n')
  const drop = {
    title: cut(asOneLine(first), 200) || message.id,
    description: message.content,
    ...(isMember ? { assignee: message.to } : {}),
  }
  // Whom a line in a file is from, it only claims.
  const added = core.tasks.add([drop], { by: origin === 'file' ? 'file' : message.from, key: taskKey(message) })
  if (!added.ok) notices.problem(`message/${message.id}`, `message ${message.id} made no task: ${added.fault.message}`)
}

/** Those that a crash, or a moment's holder, left without their task. */
export const takeTaskMessages = (core: Core, notices: Notices): void => {
  for (const name of core.mail.inboxes)
    for (const { value } of core.store.inbox(name).read(0))
      if (value.message.type === 'task' && !core.store.marks.get(`drop/${taskKey(value.message)}`))
        takeTaskMessage(core, notices, value)
}
