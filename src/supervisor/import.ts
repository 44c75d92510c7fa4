import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isWaiting, Request } from '../protocol/request.ts'
import type { Store } from '../store/store.ts'

/**
 * Takes requests in from the files that people read, when the journal knows none: `.team/` was lost, or the folder was copied
 * without it. What was decided stays on record and is never carried out again; what waited is withdrawn, since what it was
 * bound to may be gone. (Tasks and messages are taken in by their folders.) Returns how many there were.
 */
export const importRequests = (store: Store, dir: string, at: string): number => {
  if (store.requests.size > 0) return 0
  const found = jsonFiles(dir, /^req_.+\.json$/)
    .flatMap(({ value }) => {
      const parsed = Request.safeParse(value)
      return parsed.success ? [parsed.data] : []
    })
    .sort((a, b) => Number(a.id.replace(/\D/g, '')) - Number(b.id.replace(/\D/g, '')))
  const lost = 'the run state was lost'
  for (const request of found) {
    const ended: Request = isWaiting(request)
      ? {
          ...request,
          outcome: 'withdrawn',
          reason: lost,
          history: [...request.history, { at, by: 'supervisor', act: 'withdrawn', text: lost }],
        }
      : request
    const effect = ended.effect ?? { step: 'done' as const, at, outcome: 'unknown' as const, detail: 'imported' }
    store.requests.create(
      request.id,
      { ...ended, effect },
      { event: 'request.opened', by: 'supervisor', info: { imported: true } },
    )
  }
  return found.length
}

const jsonFiles = (dir: string, pattern: RegExp): { name: string; value: Record<string, unknown> }[] => {
  let names: string[]
  try {
    names = readdirSync(dir)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw cause
  }
  return names
    .filter(name => pattern.test(name))
    .flatMap(name => {
      try {
        const value: unknown = JSON.parse(readFileSync(join(dir, name), 'utf8'))
        return typeof value === 'object' && value !== null && !Array.isArray(value)
          ? [{ name, value: value as Record<string, unknown> }]
          : []
      } catch {
        // Torn or foreign: the folder reports it as it does any file.
        return []
      }
    })
}
