import { isWaiting, type Request } from '../../protocol/request.ts'
import type { Cli } from '../cli.ts'
import { ask } from '../prompt.ts'
import { renderRequest } from '../render/request.ts'
import type { Person } from './human.ts'
import type { Act } from './policy.ts'

/** Shows each request that waits for the human, and asks the person at the terminal, until that one has a decision. */
export const personAt = (cli: Cli): Person => {
  const asked = new Set<string>()
  return async requests => {
    const next = requests.find(request => isWaiting(request) && request.to === 'human' && !asked.has(stateOf(request)))
    if (!next) return []
    asked.add(stateOf(next))
    process.stderr.write(`\n${renderRequest(next, cli.clock.wall(), cli.paint)}\n`)
    for (;;) {
      const words = next.type === 'question' ? 'a <answer>, r <reason>' : 'y, r <reason>, q <question>'
      const said = await ask(cli, `${next.id}: ${words}, or nothing to leave it to team approve elsewhere> `)
      if (said === null || said.trim() === '') return []
      const act = actOf(next, said.trim())
      if (act) return [act]
    }
  }
}

/** Asked again only when something about it changed. */
const stateOf = (request: Request): string => `${request.id}/${request.status}/${request.history.length}`

/** What the person's line means; null when it means nothing. */
export const actOf = ({ id, type, bodyHash }: Request, line: string): Act | null => {
  const [, word = '', text = ''] = /^(\S+)\s*([\s\S]*)$/.exec(line) ?? []
  const decide = (decision: 'approve' | 'reject' | 'ask', reason?: string): Act => ({
    act: 'decide',
    params: { id, decision, shown: bodyHash, ...(reason ? { reason } : {}) },
  })
  if (type === 'question') {
    if (word === 'a' && text) return { act: 'answer', params: { id, text } }
  } else if (word === 'y' || word === 'yes') return decide('approve', text)
  if (word === 'r' && text) return decide('reject', text)
  if (word === 'q' && text) return decide('ask', text)
  return null
}
