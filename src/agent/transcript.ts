import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { flushFile, makeFolder, syncFolder } from '../lib/files.ts'
import { slug } from '../lib/text.ts'
import type { ChatMessage } from '../model/model.ts'

/** A fence that nothing in `text` closes. */
const fenced = (text: string, lang = ''): string => {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(match => match[0].length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}${lang}\n${text}${text.endsWith('\n') ? '' : '\n'}${fence}`
}

const one = (message: ChatMessage): string => {
  switch (message.role) {
    case 'user':
      return `## Told\n\n${fenced(message.text)}`
    case 'assistant': {
      const calls = message.calls.map(
        call => `**${call.name}**\n\n${fenced(call.arguments ?? call.fault ?? '', 'json')}`,
      )
      return ['## Said', message.text.trim(), ...calls].filter(Boolean).join('\n\n')
    }
    case 'tool':
      return `### Result of ${message.name}\n\n${fenced(message.text)}`
  }
}

/**
 * Writes a conversation to `<folder>/<date>_task-<slug>.md`, under a numbered name where that is taken.
 * Returns the path. `at` is ISO 8601.
 */
export const writeTranscript = (
  folder: string,
  o: {
    readonly teammate: string
    readonly task: string | null
    readonly title: string
    /** How the task ended; null where the conversation goes on. */
    readonly how: string | null
    readonly at: string
    readonly messages: readonly ChatMessage[]
  },
): string => {
  makeFolder(folder)
  const facts = [
    `- teammate: ${o.teammate}`,
    ...(o.how === null ? [`- put together: ${o.at}`] : [`- ended: ${o.at}`, `- how: ${o.how}`]),
  ]
  const head = `# ${o.task === null ? '' : `Task ${o.task}: `}${o.title}\n\n${facts.join('\n')}\n`
  const text = `${[head, ...o.messages.map(one)].join('\n\n')}\n`
  for (let n = 1; ; n++) {
    const path = join(folder, `${o.at.slice(0, 10)}_task-${slug(o.title)}${n === 1 ? '' : `-${n}`}.md`)
    try {
      // On the disk before the session says that the task ended.
      writeFileSync(path, text, { flag: 'wx', mode: 0o600 })
      flushFile(path)
      syncFolder(folder)
      return path
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw thrown
    }
  }
}
