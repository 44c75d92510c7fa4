import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { errnoOf, readPlain, replaceFile } from '../lib/files.ts'
import { endpointKey, type Learned, LearnedFile } from '../protocol/quirks.ts'
import { layout } from './root.ts'

export interface ReadLearned {
  readonly models: LearnedFile['models']
  /** Why the file says nothing although it is there; null where that is not so. */
  readonly damage: string | null
}

/** What the endpoints taught so far. A file that cannot be read is as none: the endpoints teach it again. */
export const readLearned = (root: string): ReadLearned => {
  const file = layout(root).models
  let text: string
  try {
    text = readPlain(file).toString('utf8')
  } catch (cause) {
    const code = errnoOf(cause)
    if (code === undefined) throw cause
    return { models: {}, damage: code === 'ENOENT' ? null : `${file} cannot be read (${code})` }
  }
  try {
    const parsed = LearnedFile.safeParse(JSON.parse(text))
    if (parsed.success) return { models: parsed.data.models, damage: null }
    return { models: {}, damage: `${file} is damaged (${parsed.error.issues[0]?.message ?? 'invalid'})` }
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause
    return { models: {}, damage: `${file} is damaged (no JSON)` }
  }
}

/** What is known of one model of one endpoint. */
export const learnedOf = (
  models: LearnedFile['models'],
  baseURL: string | undefined,
  name: string | undefined,
): Learned => {
  const key = endpointKey(baseURL ?? '', name ?? '')
  if (!Object.hasOwn(models, key)) return {}
  const { at: _at, why: _why, ...learned } = models[key] ?? { at: '', why: '' }
  return learned
}

/**
 * Adds to the file; for the holder alone, one call after the other. Returns when it is on the disk. A damaged file is kept beside
 * it, under another name.
 */
export const writeLearned = async (
  root: string,
  o: {
    readonly baseURL: string
    readonly name: string
    readonly learned: Learned
    readonly why: string
    readonly at: string
  },
): Promise<void> => {
  const { models, damage } = readLearned(root)
  const { models: file, run } = layout(root)
  if (damage !== null) await rename(file, join(run, 'models.damaged.json'))
  const key = endpointKey(o.baseURL, o.name)
  const next: LearnedFile = {
    v: 1,
    models: { ...models, [key]: { ...learnedOf(models, o.baseURL, o.name), ...o.learned, at: o.at, why: o.why } },
  }
  await replaceFile(file, `${JSON.stringify(next, null, 2)}\n`)
}
