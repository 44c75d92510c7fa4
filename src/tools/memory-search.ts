import type MiniSearch from 'minisearch'
import type { MemoryEntry } from '../protocol/memory.ts'

/** One entry that was found, where it came from kept beside it. */
export interface Remembered {
  readonly entry: MemoryEntry
  readonly of: 'own' | 'team'
}

/**
 * The entries that have something of the query, best first: ranked by BM25, rare words and short entries above common and long
 * ones. Nothing is kept between searches: the files are the truth, and small.
 */
export const searchMemory = async (all: readonly Remembered[], query: string): Promise<Remembered[]> => {
  // Loaded by the first search: most turns search nothing.
  const { default: Index } = await import('minisearch')
  const index: MiniSearch = new Index({ fields: ['category', 'content'], tokenize: words, processTerm: word => word })
  index.addAll(all.map(({ entry }, id) => ({ id, category: entry.category ?? '', content: entry.content })))
  const found = index.search(query, {
    boost: { category: 2 },
    prefix: word => word.length > 2 && isAscii(word),
    fuzzy: word => (word.length > 4 && isAscii(word) ? 0.2 : false),
  })
  return found.flatMap(({ id }) => all[id] ?? [])
}

const isAscii = (text: string): boolean => /^[ -~]*$/.test(text)

const segmenter = new Intl.Segmenter(undefined, { granularity: 'word' })
/** A segmenter takes time with the square of what it is given at once. */
const longestPiece = 200

/**
 * The words of a text, lower-case. An identifier is found by itself and by its parts (`deployKey`, `deploy_key`, `deploy`). Text
 * without spaces is cut into words by the segmenter; of Chinese, Japanese and Korean each pair of neighbours is one more, since
 * another cut would miss it.
 */
export const words = (text: string): string[] => {
  const found: string[] = []
  for (const [piece] of text.normalize('NFKC').matchAll(/[^\s]+/g)) {
    if (isAscii(piece)) identifiers(piece, found)
    else
      for (let at = 0; at < piece.length; at += longestPiece) {
        const part = piece.slice(at, at + longestPiece)
        for (const { segment, isWordLike } of segmenter.segment(part)) if (isWordLike) identifiers(segment, found)
        pairs(part, found)
      }
  }
  return found
}

const identifiers = (text: string, found: string[]): void => {
  for (const [name] of text.matchAll(/[\p{L}\p{M}\p{N}_]+/gu)) {
    const parts = name.split(/_+|(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/u).filter(part => part !== '')
    const all = new Set([name.replace(/^_+|_+$/g, ''), ...parts].map(part => part.toLowerCase()))
    for (const word of all) if (word !== '') found.push(word)
  }
}

const cjk = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}ー]+/gu

const pairs = (text: string, found: string[]): void => {
  for (const [run] of text.matchAll(cjk)) {
    const signs = [...run]
    for (let at = 0; at + 1 < signs.length; at++) found.push(`${signs[at]}${signs[at + 1]}`)
  }
}
