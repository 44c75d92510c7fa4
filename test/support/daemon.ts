import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach } from 'vitest'
import { type Reply, type ScriptedRequest, type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import type { Hello } from '../../src/protocol/rpc.ts'
import { statusOf, teamRoot, tempFolder, until } from './cli.ts'
import { initRepo, type Repo } from './repo.ts'

const servers = new Set<ScriptedServer>()
afterEach(async () => {
  await Promise.all([...servers].map(server => server.close()))
  servers.clear()
})

/** A scripted endpoint, closed after the test. */
export const model = async (
  script: readonly Reply[] | ((request: ScriptedRequest, n: number) => Reply | Promise<Reply>),
): Promise<ScriptedServer> => {
  const server = await startScripted(script)
  servers.add(server)
  return server
}

/** An answer that never comes. */
export const silence = (): Promise<Reply> => new Promise(() => undefined)

/** A tool call as a model makes it. */
export const call = (name: string, args: object, id?: string): Reply => ({
  calls: [{ name, args, ...(id === undefined ? {} : { id }) }],
})

/** The last user message that holds a task, and what was answered to each call since. */
export const sinceTask = (
  request: ScriptedRequest,
): { id: string; results: { name: string; text: string }[]; text: string } | null => {
  const { messages } = request
  for (let at = messages.length - 1; at >= 0; at--) {
    const found = /<task id="([^"]+)"/.exec(messages[at]?.role === 'user' ? (messages[at]?.content ?? '') : '')
    if (!found) continue
    const results: { name: string; text: string }[] = []
    const names = new Map<string, string>()
    for (const message of messages.slice(at)) {
      for (const each of message.tool_calls ?? []) names.set(each.id, each.function.name)
      if (message.role === 'tool')
        results.push({ name: names.get(message.tool_call_id ?? '') ?? '', text: message.content ?? '' })
    }
    return { id: found[1] ?? '', results, text: messages[at]?.content ?? '' }
  }
  return null
}

/** Whose request it is, by the name in the system message. */
export const asker = (request: ScriptedRequest, names: readonly string[]): string => {
  const system = request.messages[0]?.content ?? ''
  return names.find(name => new RegExp(`^You are ${name}[,.]`, 'm').test(system)) ?? ''
}

/** The text of every user message, in order. */
export const heard = (request: ScriptedRequest | undefined): string =>
  (request?.messages ?? []).flatMap(message => (message.role === 'user' ? [message.content ?? ''] : [])).join('\n')

/** A team in a new folder (dir mode, no sandbox, the commands of these tests allowed) whose model is `server`. */
export const teamOf = (server: ScriptedServer, more: object = {}): string =>
  teamRoot({
    teammates: [{ name: 'alice' }, { name: 'bob' }],
    sandbox: 'off',
    permissions: { allow: ['sleep *', 'setsid *', 'wait *', 'git *', 'node *', 'export *'] },
    model: { provider: 'scripted', name: 'm', baseURL: server.baseURL },
    ...more,
  })

/** The same on a repository beside it, in git mode. */
export const gitTeamOf = (server: ScriptedServer, more: object = {}): { root: string; repo: Repo } => {
  const repo = initRepo(join(tempFolder(), 'work'))
  return { root: teamOf(server, { workspace: repo.dir, mode: 'git', ...more }), repo }
}

export const holderOf = async (root: string): Promise<Hello> => {
  const { holder } = await statusOf(root)
  if (!holder) throw new Error(`no daemon runs for ${root}`)
  return holder
}

/** Kills the daemon without a word, and waits until it is gone. */
export const killDaemon = async (root: string): Promise<number> => {
  const { pid } = await holderOf(root)
  process.kill(pid, 'SIGKILL')
  await until(() => !isAlive(pid))
  return pid
}

/** A process that is there and no zombie. */
export const isAlive = (pid: number): boolean => {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** Every journal line, in order of the files. */
export const journalOf = (root: string): { event: string; by: string; info?: Record<string, unknown> }[] => {
  const folder = join(root, '.team', 'journal')
  return readdirSync(folder)
    .filter(name => /^\d{8}\.jsonl$/.test(name))
    .sort()
    .flatMap(name => readFileSync(join(folder, name), 'utf8').split('\n').slice(1, -1).filter(Boolean))
    .map(line => JSON.parse(line))
    .filter(entry => typeof entry.event === 'string')
}

/** Processes, other than this one, in whose command line `word` stands. */
export const running = (word: string): number[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map(Number)
    .filter(pid => {
      try {
        return isAlive(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ').includes(word)
      } catch {
        return false
      }
    })
