import type { ChildProcess } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach } from 'vitest'
import { unwrap } from '../../src/lib/result.ts'
import { type Reply, type ScriptedRequest, type ScriptedServer, startScripted } from '../../src/model/scripted.ts'
import type { InboxItem, RpcMethod, RpcParams, RpcResults, Status } from '../../src/protocol/rpc.ts'
import { connect } from '../../src/store/rpc/client.ts'
import { ended, says, start, teamRoot, until } from './cli.ts'

const servers = new Set<ScriptedServer>()
afterEach(async () => {
  for (const server of servers) await server.close()
  servers.clear()
})

/** What one teammate's model says to a request; `n` counts that teammate's requests from 0. */
export type Script = (request: ScriptedRequest, n: number) => Reply | Promise<Reply>

/** A team root whose teammates each speak to the scripted model under their own name, and what was asked of it. */
export interface ScriptedTeam {
  readonly root: string
  readonly server: ScriptedServer
  /** Requests of one teammate, in order. */
  requests(name: string): ScriptedRequest[]
  /** Starts `team up` in front and resolves when it is ready. */
  up(env?: Readonly<Record<string, string>>): Promise<ChildProcess>
}

/** `scripts` by teammate; who has none ends each turn at once. `config` is laid over what the test team needs. */
export const scriptedTeam = async (
  scripts: Readonly<Record<string, Script>>,
  config: {
    readonly teammates?: readonly ({ readonly name: string; readonly model?: object } & Readonly<
      Record<string, unknown>
    >)[]
  } & Readonly<Record<string, unknown>> = {},
): Promise<ScriptedTeam> => {
  const counts = new Map<string, number>()
  const server = await startScripted(request => {
    const n = counts.get(request.model) ?? 0
    counts.set(request.model, n + 1)
    return scripts[request.model]?.(request, n) ?? 'Read.'
  })
  servers.add(server)
  const teammates: readonly { readonly name: string; readonly model?: object }[] =
    config.teammates ?? Object.keys(scripts).map(name => ({ name }))
  const root = teamRoot({
    sandbox: 'off',
    ...config,
    model: { provider: 'scripted', baseURL: server.baseURL },
    teammates: teammates.map(mate => ({ ...mate, model: { ...mate.model, name: mate.name } })),
  })
  return {
    root,
    server,
    requests: name => server.requests.filter(request => request.model === name),
    async up(env = {}) {
      const child = start(['up', '--root', root], { env })
      await says(child, /ready, pid/)
      return child
    },
  }
}

/** kill -9, as a power cut of the process. */
export const killed = async (child: ChildProcess): Promise<void> => {
  child.kill('SIGKILL')
  await ended(child)
}

/** A promise that a test opens. */
export const gate = (): { readonly opened: Promise<void>; open(): void } => {
  let open = (): void => undefined
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return { opened, open }
}

/** All that the model was told by users and tools in this request, as one text. */
export const heard = (request: ScriptedRequest | undefined): string =>
  (request?.messages ?? [])
    .filter(message => message.role !== 'assistant')
    .map(message => message.content ?? '')
    .join('\n')

/** What the last user message of a request says. */
export const lastSaid = (request: ScriptedRequest): string =>
  request.messages.findLast(message => message.role === 'user')?.content ?? ''

interface SessionEntry {
  readonly k: string
  /** With the mark of the inbox: new mail. Without: told again in a context that began anew. */
  readonly mail?: unknown
  readonly items?: readonly { readonly k: string; readonly id?: string; readonly content?: string }[]
}

/** Each piece of mail that entered the context of `name`, as often as it did, in order: what its session journal says. */
export const taken = (root: string, name: string): { id: string; content: string }[] => {
  const folder = join(root, '.team', 'sessions')
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .filter(file => file === `${name}.jsonl` || new RegExp(`^${name}\\.\\d+\\.jsonl$`).test(file))
    .flatMap(file => readFileSync(join(folder, file), 'utf8').split('\n').slice(0, -1))
    .map(line => JSON.parse(line) as SessionEntry)
    .filter(entry => entry.k === 'items' && entry.mail !== undefined)
    .flatMap(entry => entry.items ?? [])
    .filter(item => item.k === 'message')
    .map(item => ({ id: item.id ?? '', content: item.content ?? '' }))
}

/** Asks the daemon as the command does, without the cost of a process. */
export const ask = async <M extends RpcMethod>(
  root: string,
  method: M,
  params: RpcParams<M>,
): Promise<RpcResults[M]> => {
  const client = unwrap(await connect(root))
  try {
    return unwrap(await client.call(method, params))
  } finally {
    client.close()
  }
}

export const status = (root: string): Promise<Status> => ask(root, 'status', {})

/** Resolves when every one of `names` is idle with nothing unread and nothing in hand. */
export const quiet = (root: string, ...names: string[]): Promise<Status> =>
  until(async () => {
    const now = await status(root)
    const all = now.teammates.filter(mate => names.includes(mate.name))
    return all.every(mate => mate.state === 'idle' && mate.unread === 0 && mate.task === null) && now
  }, 60_000)

/** Everything that is kept of an inbox. */
export const inboxOf = async (root: string, name: string): Promise<RpcResults['inbox.read']> => {
  const items: InboxItem[] = []
  for (;;) {
    const page = await ask(root, 'inbox.read', { name, after: items.at(-1)?.index ?? 0 })
    items.push(...page.items)
    if (page.items.length === 0) return { ...page, items }
  }
}

export interface Entry {
  readonly event: string
  readonly by: string
  readonly info?: Readonly<Record<string, unknown>>
}

/** The journal's entries so far. */
export const journal = async (root: string): Promise<Entry[]> => {
  const folder = join(root, '.team', 'journal')
  return readdirSync(folder)
    .filter(file => /^\d+\.jsonl$/.test(file))
    .sort()
    .flatMap(file => readFileSync(join(folder, file), 'utf8').split('\n').slice(1, -1).filter(Boolean))
    .map(line => JSON.parse(line) as Entry)
}
