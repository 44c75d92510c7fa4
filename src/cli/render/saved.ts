import type { SavedShown } from '../../protocol/work.ts'
import { oneLine, table, when } from './text.ts'

const kinds: Readonly<Record<SavedShown['kind'], string>> = {
  uncommitted: 'not committed',
  commits: 'commits',
  replaced: 'replaced on its branch',
}

/** What it is, whose and of which branch. */
export const savedWords = ({ kind, teammate, branch, isInCloneAlone }: SavedShown): string =>
  `${kinds[kind]}${teammate === null ? '' : `, by ${teammate}`}${branch === null ? '' : `, on ${branch}`}${isInCloneAlone ? ', in its clone alone so far' : ''}`

/** What was saved aside, a line each. */
export const savedTable = (saved: readonly SavedShown[], now: number): string =>
  table(saved.map(each => [each.id, each.at === null ? '-' : when(each.at, now), oneLine(savedWords(each), 120)]))
