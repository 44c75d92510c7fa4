import type { MergeCheck, MergeRecord } from '../../protocol/merge-record.ts'
import type { Request } from '../../protocol/request.ts'
import { indented, oneLine, type Paint, table } from './text.ts'

/** What was merged and what proves it, or why it was not: of the latest of these requests that has a record; null where none has. */
export const renderMerge = (requests: readonly Request[], c: Paint): string | null => {
  const request = requests.findLast(each => each.type === 'merge_request' && each.effect?.merge !== undefined)
  const record = request?.effect?.merge
  if (!request || !record) return null
  const short = (id: string) => id.slice(0, 10)
  const others = record.batch.slice(0, 64)
  const rows: [string, string][] = [
    ['request', `${request.id}, ${request.effect?.outcome ?? 'begun'}`],
    ['merge of', `${short(record.head)} into ${short(record.onto)}`],
    ['tree', short(record.tree)],
    ['commit', record.commit === null ? 'none' : short(record.commit)],
  ]
  if (others.length > 1)
    rows.push(['with', `verified together (tree ${short(record.checked)}): task ${others.join(', ')}`])
  if (record.redBefore !== undefined)
    rows.push(['red', record.redBefore ? 'on the trunk before' : 'by this work: the trunk alone is green'])
  const red = record.checks.filter(each => !each.ok && each.where !== 'base' && each.tail.trim() !== '')
  return [
    table(
      rows.map(([name, text]) => [c.dim(name), oneLine(text, 400)]),
      '  ',
    ),
    ...(record.checks.length === 0
      ? ['  nothing verifies it']
      : [
          table(
            record.checks.map(each => row(each, c)),
            '  ',
          ),
        ]),
    ...red.map(
      each => `  ${c.dim(`${where[each.where]}, ${oneLine(each.command, 100)}:`)}\n${indented(each.tail, '    ')}`,
    ),
  ].join('\n')
}

const where: Record<MergeCheck['where'], string> = {
  merged: 'merged',
  trunk: 'trunk alone',
  base: 'where it started',
}

const row = ({ command, where: at, ok, exitCode, ms, tests }: MergeRecord['checks'][number], c: Paint): string[] => [
  ok ? c.green('green') : c.red('red'),
  where[at],
  oneLine(command, 100),
  exitCode === null ? 'ended by a signal' : `exit ${exitCode}`,
  `${(ms / 1000).toFixed(1)} s`,
  tests === null ? '' : `${tests} test${tests === 1 ? '' : 's'}`,
]
