import { fail, ok } from '../../lib/result.ts'
import { isWaiting, type Request } from '../../protocol/request.ts'
import type { Cli } from '../cli.ts'
import { ask } from '../prompt.ts'
import { renderRequest } from '../render/request.ts'
import { oneLine } from '../render/text.ts'
import type { Person } from './human.ts'
import type { Act } from './policy.ts'

/**
 * Shows each request that waits for the human, and asks the person at the terminal, until that one has a decision. A fault when
 * the person ends the input: then nobody decides any more.
 */
export const personAt = (cli: Cli): Person => {
  const asked = new Map<string, string>()
  return {
    async decide(requests, signal) {
      const next = requests.find(one => isWaiting(one) && one.to === 'human' && asked.get(one.id) !== stateOf(one))
      if (!next) return ok([])
      asked.set(next.id, stateOf(next))
      cli.out.note(`\n${renderRequest(next, cli.clock.wall(), cli.paint)}`)
      const words = next.type === 'question' ? 'a <answer>, r <reason>' : 'y, r <reason>, q <question>'
      for (;;) {
        const said = await ask(cli, `${next.id}: ${words}, or nothing to leave it to team approve elsewhere> `, signal)
        if (said === null && !signal.aborted)
          return fail('closed', `the input ended while ${next.id} waited for a decision: nobody decides any more`)
        if (said === null || said.trim() === '') return ok([])
        const act = actOf(next, said.trim())
        if (act) return ok([act])
      }
    },
    refused(act, { message }) {
      cli.out.note(`not done: ${oneLine(message, 400)}`)
      if ('id' in act.params) asked.delete(act.params.id)
    },
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
