import { randomBytes } from 'node:crypto'
import type { Reply, ScriptedRequest } from '../../src/model/scripted.ts'

const call = (name: string, args: object): Reply => ({ calls: [{ name, args }] })

interface Since {
  readonly id: string
  readonly title: string
  readonly results: readonly { readonly name: string; readonly args: string; readonly text: string }[]
  readonly told: string
}

/** The last task that the model was given, what was answered to each call since, and what it was told since. */
const since = ({ messages }: ScriptedRequest): Since | null => {
  for (let at = messages.length - 1; at >= 0; at--) {
    const found = /<task id="([^"]+)"[^>]*>\n# ([^\n]*)/.exec(
      messages[at]?.role === 'user' ? (messages[at]?.content ?? '') : '',
    )
    if (!found) continue
    const results: { name: string; args: string; text: string }[] = []
    const calls = new Map<string, { name: string; args: string }>()
    let told = ''
    for (const message of messages.slice(at)) {
      if (message.role === 'user') told += `${message.content}\n`
      for (const each of message.tool_calls ?? [])
        calls.set(each.id, { name: each.function.name, args: each.function.arguments })
      if (message.role === 'tool')
        results.push({
          ...(calls.get(message.tool_call_id ?? '') ?? { name: '', args: '' }),
          text: message.content ?? '',
        })
    }
    return { id: found[1] ?? '', title: found[2] ?? '', results, told }
  }
  return null
}

/**
 * The one command of the tasks, a script of the workspace: it says so when this very call was run before, appends the task's
 * line once, commits it, and leaves the commit's name.
 */
export const script = `set -u
(set -C; : > "$1/call-$2") 2>/dev/null || echo "$2" >> "$1/twice"
grep -qsx "$3" "t$3.txt" || echo "$3" >> "t$3.txt"
git add -A
git diff --cached --quiet || git commit -qm "task-$3" || exit 1
: > "$1/commit-$(git rev-parse HEAD)"
echo committed
`

/**
 * What each teammate's model does, by the first word of its task's title. Every step may be asked for again after a crash cut
 * it off: then it is a new call, which does what is not done yet.
 */
export const teammateModel =
  (ran: string, team: readonly string[]) =>
  (request: ScriptedRequest): Reply => {
    const at = since(request)
    if (!at) return 'Read.'
    const { id, title, results, told } = at
    const last = results.at(-1)
    const ok = (name: string, word: RegExp) => results.some(each => each.name === name && word.test(each.text))
    const made = (name: string, word: string) => results.some(each => each.name === name && each.args.includes(word))
    if (last?.name === 'task' && /claimed done|no task in hand|not in your hands/.test(last.text)) return 'Done.'
    const kind = title.split(' ')[0]
    if (kind === 'ask' && !told.includes('was answered'))
      return made('ask_user', 'tabs') ? 'I wait.' : call('ask_user', { question: `tabs in ${id}?` })
    if (kind === 'plan' && !/was approved/.test(told))
      return call('request', { action: 'open', type: 'plan_request', body: `append to t${id}.txt` })
    if (kind === 'lease' && !ok('request', /granted|you hold|fence/i) && !/was approved|granted/.test(told))
      return call('request', { action: 'open', type: 'resource_request', data: { kind: 'name', what: ['db'] } })
    if (kind === 'mail' && !made('message', 'word-')) {
      const to = team[(team.indexOf(request.model) + 1) % team.length] ?? ''
      const word = `word-${request.model}-${id}-${randomBytes(4).toString('hex')}`
      return call('message', { to, content: word })
    }
    if (!ok('bash', /committed/))
      return call('bash', { command: `sh act.sh ${ran} ${randomBytes(6).toString('hex')} ${id}` })
    return call('task', { action: 'complete', summary: `t${id}.txt` })
  }
