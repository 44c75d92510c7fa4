import { isDeepStrictEqual } from 'node:util'
import { nearest } from '../lib/text.ts'
import { issueLines } from './issues.ts'
import { editable, type Task, TaskDrop, type TaskFile } from './task.ts'

/** What a task's file shows of the record at revision `rev`; its keys in the order of what people look for first. */
export const taskFile = (task: Task, rev: number, blockedBy: readonly string[]): TaskFile => ({
  id: task.id,
  title: task.title,
  description: task.description,
  status: task.status,
  blockedBy,
  createdAt: task.createdAt,
  completedAt: task.completedAt,
  dependsOn: task.dependsOn,
  owner: task.owner,
  assignee: task.assignee,
  needs: task.needs,
  skills: task.skills,
  priority: task.priority,
  verify: task.verify,
  accept: task.accept,
  review: task.review,
  paths: task.paths,
  claimed: task.claimed,
  attempts: task.attempts,
  startedAt: task.startedAt,
  updatedAt: task.updatedAt,
  branch: task.branch,
  result: task.result,
  error: task.error,
  needsPlan: task.needsPlan,
  parent: task.parent,
  tags: task.tags,
  rev,
  returns: task.returns,
  ...(task.spared === undefined ? {} : { spared: task.spared }),
  takeIn: task.takeIn,
  ...(task.givenTo === undefined ? {} : { givenTo: task.givenTo }),
  ...(task.notFor === undefined ? {} : { notFor: task.notFor }),
  file: task.file,
  v: 1,
})

export const renderTask = (file: TaskFile): string => `${JSON.stringify(file, null, 2)}\n`

/** What a hand edit asks for: only fields that people may change. `cancel` stands for `status: cancelled`. */
export interface HandEdit {
  readonly title?: string
  readonly description?: string
  readonly priority?: number
  readonly verify?: string | null
  readonly accept?: readonly string[]
  readonly dependsOn?: readonly string[]
  readonly cancel?: boolean
}

export interface Compared {
  /** null when nothing that may be changed was changed. */
  readonly edit: HandEdit | null
  /** What the text changes and the task holds already, so that it was adopted before. */
  readonly held: HandEdit
  /** What was changed and may not be, one line a field. */
  readonly refused: readonly string[]
}

/**
 * What the hand-edited value `found` changes, field by field, against `base` (what the file showed when it was opened)
 * and `now` (what it would show now; the same as `base` unless the task moved on meanwhile). A field that both changed is
 * refused, unless what it is now was set by hand from the same text (`byHand`): whoever saves twice means the last. A file
 * without `rev` was written by some other program: what it leaves out is unchanged.
 */
export const compareTask = (
  base: TaskFile,
  now: TaskFile,
  found: Readonly<Record<string, unknown>>,
  byHand: HandEdit = {},
): Compared => {
  const refused: string[] = []
  const changed: Record<string, unknown> = {}
  const held: Record<string, unknown> = {}
  const shown: Readonly<Record<string, unknown>> = { ...base }
  const current: Readonly<Record<string, unknown>> = { ...now }
  const saved: Readonly<Record<string, unknown>> = { ...byHand }
  for (const key of Object.keys(shown)) {
    // A file of an older version lacks what came later, which says nothing there.
    if (key in found || found.rev === undefined || shown[key] === null) continue
    refused.push(`${key}: taken out; a field stays where it is`)
  }
  for (const [key, value] of Object.entries(found)) {
    if (!(key in shown)) {
      if (value === null || value === '') continue
      const near = nearest(key, Object.keys(shown))
      refused.push(`${key}: unknown key${near === undefined ? '' : ` (did you mean "${near}"?)`}`)
    } else if (isSame(key, shown[key], value)) continue
    else if (!(editable as readonly string[]).includes(key))
      refused.push(`${key}: changed, but only the supervisor sets it`)
    else if (isSame(key, current[key], value)) held[key] = current[key]
    else if (
      key !== 'blockedBy' &&
      key !== 'status' &&
      !isDeepStrictEqual(shown[key], current[key]) &&
      !(key in saved && isDeepStrictEqual(saved[key], current[key]))
    )
      refused.push(`${key}: changed here and meanwhile in the task too; look at the file again`)
    else changed[key] = value
  }
  const edit = toEdit(changed, base, now, refused)
  return { edit: Object.keys(edit).length > 0 ? edit : null, held, refused }
}

/** Ids and times may be written as numbers by other programs. */
const isSame = (key: string, shown: unknown, found: unknown): boolean =>
  isDeepStrictEqual(shown, found) ||
  (key === 'id' && String(shown) === String(found)) ||
  (key === 'createdAt' && typeof found === 'number') ||
  ((key === 'blockedBy' || key === 'dependsOn') &&
    Array.isArray(found) &&
    isDeepStrictEqual(shown, found.map(String))) ||
  ((shown === null || shown === '') && (found === null || found === ''))

const Editable = TaskDrop.pick({
  title: true,
  description: true,
  priority: true,
  verify: true,
  accept: true,
  dependsOn: true,
  blockedBy: true,
}).partial()

const toEdit = (changed: Record<string, unknown>, base: TaskFile, now: TaskFile, refused: string[]): HandEdit => {
  const { status, ...fields } = changed
  const edit: { -readonly [K in keyof HandEdit]: HandEdit[K] } = {}
  if (status === 'cancelled') edit.cancel = true
  else if (status !== undefined)
    refused.push(
      `status: ${JSON.stringify(status)} is not for a hand to set, only "cancelled"${status === 'canceled' ? ' (with two l)' : ''}`,
    )
  const good: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(fields)) {
    const parsed = Editable.safeParse({ [key]: value })
    if (parsed.success) Object.assign(good, parsed.data)
    else refused.push(...issueLines(parsed.error.issues, []))
  }
  const { dependsOn, blockedBy, ...plain } = Editable.parse(good)
  Object.assign(edit, plain)
  if (dependsOn || blockedBy) {
    // blockedBy shows a part of dependsOn: what was put in or taken out there is put in or taken out of the edges.
    const edges = dependsOn ?? [...now.dependsOn]
    const added = (blockedBy ?? base.blockedBy).filter(id => !base.blockedBy.includes(id) && !edges.includes(id))
    const removed = blockedBy ? base.blockedBy.filter(id => !blockedBy.includes(id)) : []
    edit.dependsOn = [...edges.filter(id => !removed.includes(id)), ...added]
    if (isDeepStrictEqual(edit.dependsOn, now.dependsOn)) delete edit.dependsOn
  }
  return edit
}

/**
 * Is `found` what the file showed at an earlier revision (`then`, as the journal has it)? Then it is stale, not edited.
 * `blockedBy` is not compared as such, since it depended on other tasks at that time: it must be a part of the edges.
 */
export const isStale = (then: Task, found: Readonly<Record<string, unknown>>): boolean => {
  const { v: _v, rev: _rev, blockedBy, ...rest } = found
  return (
    isDeepStrictEqual({ ...saidNothing(then), ...rest }, then) &&
    Array.isArray(blockedBy) &&
    blockedBy.every(id => then.dependsOn.includes(String(id)))
  )
}

const saidNothing = (fields: object): Record<string, null> =>
  Object.fromEntries(Object.entries(fields).flatMap(([key, value]) => (value === null ? [[key, null]] : [])))
