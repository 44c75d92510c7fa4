import { randomBytes } from 'node:crypto'
import type { Reply, ScriptedRequest } from '../../src/model/scripted.ts'

const call = (name: string, args: object): Reply => ({ calls: [{ name, args }] })
const some = () => randomBytes(5).toString('hex')

interface Result {
  readonly name: string
  readonly args: string
  readonly text: string
}

interface Since {
  readonly id: string
  readonly title: string
  readonly results: readonly Result[]
  readonly told: string
}

/** The last task that the model was given, what was answered to each call since, and what it was told since. */
const since = ({ messages }: ScriptedRequest): Since | null => {
  for (let at = messages.length - 1; at >= 0; at--) {
    // Of several in one message, as after a crash that cut off the turn of the first, the last one is in hand.
    const found = [
      ...(messages[at]?.role === 'user' ? (messages[at]?.content ?? '') : '').matchAll(
        /<task id="([^"]+)"[^>]*>\n(?:<returned>[\s\S]*?<\/returned>\n)?# ([^\n]*)/g,
      ),
    ].at(-1)
    if (!found) continue
    const results: Result[] = []
    const calls = new Map<string, { name: string; args: string }>()
    let told = ''
    for (const message of messages.slice(at)) {
      // What stands before the task in the same breath is about another one.
      if (message.role === 'user')
        told += `${message === messages[at] ? message.content?.slice(found.index) : message.content}\n`
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
 * The one command of the tasks, a script of the workspace: `sh act.sh <where it leaves its marks> <this very call> <the line>`.
 * It says so when this call was run before, appends the line once to the file of its name, commits it where there is git (past a
 * lock that a killed git left), and leaves the commit's name.
 */
export const script = `set -u
mkdir -p "$1"
(set -C; : > "$1/call-$2") 2>/dev/null || echo "$2" >> "$1/twice"
grep -qsx "$3" "$3.txt" || echo "$3" >> "$3.txt"
if [ -d .git ]; then
  rm -f .git/index.lock .git/HEAD.lock
  git add -A
  git diff --cached --quiet || git commit -qm "task-$3" || exit 1
  : > "$1/commit-$(git rev-parse HEAD)"
fi
echo committed
`

/** What tasks are made of; the second word of a title is the name of its file. */
export const kinds = [
  'work',
  'ask',
  'plan',
  'lease',
  'mail',
  'permit',
  'split',
  'mail',
  'shrink',
  'shrink',
  'give',
] as const

/**
 * What each teammate's model does, by the first word of its task's title. Every step may be asked for again after a crash cut
 * it off: then it is a new call, which does what is not done yet.
 */
export const teammateModel =
  (root: string, team: readonly string[]) =>
  (request: ScriptedRequest): Reply => {
    const said = (word: string) =>
      request.messages.some(({ role, content }) => role === 'user' && content?.includes(word))
    const [system, asked] = request.messages
    const latest = request.messages.at(-1)
    // A subagent runs what it is asked to, and says what came of it.
    if (/^You are a subagent/.test(system?.content ?? ''))
      return latest?.role === 'tool' ? latest.content || '?' : call('bash', { command: asked?.content ?? '' })
    if (latest?.content?.includes('Your conversation is put together now'))
      return ['Goal', 'Decisions', 'State', 'Open', 'Files'].map(part => `## ${part}\nwhat there is`).join('\n')
    const at = since(request)
    if (!at || at.told.includes(`Task ${at.id} is not in your hands`)) return 'Read.'
    const { id, title, results, told } = at
    const last = results.at(-1)
    const ok = (name: string, word: RegExp) => results.some(each => each.name === name && word.test(each.text))
    // A question that was cut off by the death of its thread was perhaps never asked.
    const isAsked = results.some(each => each.name === 'ask_user' && !/^error: (interrupted|not run)/.test(each.text))
    const made = (name: string, word: string) => results.some(each => each.name === name && each.args.includes(word))
    if (last?.name === 'task' && /claimed done|no task in hand|not in your hands/.test(last.text)) return 'Done.'
    const [kind = '', file = ''] = title.split(' ')
    const act = `sh act.sh ${root}/team/${request.model}/out/ran ${some()} ${file}`
    const plan = { action: 'open', type: 'plan_request' }
    if (kind === 'ask' && !told.includes('was answered'))
      return isAsked ? 'I wait.' : call('ask_user', { question: `tabs in ${id}?` })
    if (kind === 'plan' && !/was approved/.test(told))
      return call('request', { ...plan, body: `append to ${file}.txt` })
    if (kind === 'split' && !/was approved/.test(told))
      return call('request', { ...plan, body: `more ${id}`, data: { tasks: [{ title: `work s${id}x${some()}` }] } })
    if (kind === 'lease' && !ok('request', /granted|you hold|fence/i) && !/was approved|granted/.test(told))
      return call('request', { action: 'open', type: 'resource_request', data: { kind: 'name', what: ['db'] } })
    if (kind === 'mail' && !made('message', 'word-')) {
      const to = team[(team.indexOf(request.model) + 1) % team.length] ?? ''
      return call('message', { to, content: `word-${request.model}-${id}-${some()}` })
    }
    // What it ran is forgotten with that, so it runs it once more.
    const shrinks = results.filter(({ name }) => name === 'compact').length
    if (kind === 'shrink' && ok('bash', /committed/) && !said('<summary>') && shrinks < 3)
      return { text: 'words '.repeat(1000), calls: [{ name: 'compact', args: {} }] }
    if (ok('bash', /committed/) || ok('subagent', /committed/))
      return call('task', { action: 'complete', summary: `${file}.txt` })
    if (kind === 'give') return call('subagent', { prompt: act })
    if (kind !== 'permit') return call('bash', { command: act })
    // What was permitted is run once; cut off at that, it is another call, which wants a permit of its own.
    const before = results.findLast(({ name }) => name === 'bash')
    const { command = '' } = JSON.parse(before?.args ?? '{}') as { command?: string }
    // The decision names the command, cut where it is long: by the word that is this call's own.
    const own = /\/ran (\w+) /.exec(command)?.[1] ?? command
    const isPermitted = before?.text.includes('It did not run') && new RegExp(`${own}[^)]*\\) was approved`).test(told)
    return call('bash', { command: isPermitted ? command : `env ${act}` })
  }
