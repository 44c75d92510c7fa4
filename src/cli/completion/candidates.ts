import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseJsonc } from '../../lib/jsonc.ts'
import type { Status } from '../../protocol/rpc.ts'
import { connectDaemon } from '../connect-daemon.ts'

/** Id or name, and what it is. */
type Candidate = readonly [word: string, about: string]

/**
 * What the running daemon says, else what the files say: for a shell that completes, so it is quick, and whatever cannot be
 * read gives no candidates. Part of the fast path: imports nothing heavy.
 */
export const candidates = async (root: string, kind: string): Promise<Candidate[]> =>
  (await all(root, kind)).filter(([word]) => isWord(word))

/**
 * Shells put what they are offered into the command line as it is, where `$(…)` would be run: whatever lies in the folders and
 * cannot be an id or a name is not offered.
 */
const isWord = (word: string): boolean => /^[A-Za-z0-9][\w.-]*$/.test(word)

const all = async (root: string, kind: string): Promise<Candidate[]> => {
  const known = (await fromDaemon(root)) ?? fromFiles(root)
  const tasks = known.tasks.map((each): Candidate => [each.id, `${each.status}: ${each.title}`])
  const requests = known.requests.map((each): Candidate => [each.id, each.title])
  const teammates = known.teammates.map((each): Candidate => [each.name, each.role])
  switch (kind) {
    case 'tasks':
      return tasks
    case 'requests':
      return requests
    case 'things':
      return [...requests, ...tasks]
    case 'teammates':
      return teammates
    case 'inboxes':
      return [...teammates, ['all', 'every teammate'], ['user', 'you'], ['lead', 'who leads']]
    default:
      return []
  }
}

interface Known {
  readonly tasks: readonly { readonly id: string; readonly title: string; readonly status: string }[]
  readonly requests: readonly { readonly id: string; readonly title: string }[]
  readonly teammates: readonly { readonly name: string; readonly role: string }[]
}

const fromDaemon = async (root: string): Promise<Known | null> => {
  const daemon = await connectDaemon(root)
  if (!daemon.ok) return null
  const status = await daemon.value.client.call('status', {})
  daemon.value.client.close()
  return status.ok ? (status.value satisfies Status) : null
}

type Json = Readonly<Record<string, unknown>>

const fromFiles = (root: string): Known => {
  const waiting = jsonFiles(join(root, '.messages', 'requests')).filter(each => each.outcome === null)
  const config = parsed(join(root, 'config.json'))
  const teammates = Array.isArray(config?.teammates) ? (config.teammates as Json[]) : []
  return {
    tasks: jsonFiles(join(root, '.tasks'))
      .filter(each => typeof each.status === 'string')
      .map(each => ({ id: String(each.id), title: String(each.title ?? ''), status: String(each.status) })),
    requests: waiting.map(each => ({ id: String(each.id), title: String(each.title ?? '') })),
    teammates: teammates.flatMap(each => {
      const { name, role } = each
      const count = Number(each.count ?? 1)
      const names = count > 1 ? Array.from({ length: count }, (_, i) => `${name}-${i + 1}`) : [String(name)]
      return names.map(one => ({ name: one, role: String(role ?? '') }))
    }),
  }
}

const jsonFiles = (folder: string): Json[] => {
  let names: string[]
  try {
    names = readdirSync(folder)
  } catch {
    return [] // Not there: there are none.
  }
  return names
    .filter(name => name.endsWith('.json'))
    .flatMap(name => {
      const value = parsed(join(folder, name))
      return value === null ? [] : [value]
    })
}

/** A file that cannot be read or is no object names nothing. */
const parsed = (file: string): Json | null => {
  let value: unknown
  try {
    const read = parseJsonc(readFileSync(file, 'utf8'))
    value = read.ok ? read.value.value : null
  } catch {
    return null
  }
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null
}
