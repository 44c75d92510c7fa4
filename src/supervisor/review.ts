import { cut } from '../lib/text.ts'
import type { Member } from '../protocol/config.ts'
import { isBudget, type RequestOf } from '../protocol/request.ts'
import type { Task } from '../protocol/task.ts'
import { type Core, isLive, verifyCommands } from './core.ts'
import type { Opening } from './requests.ts'
import { rejectedAtMost } from './schedule.ts'
import { lastWord } from './wait-graph.ts'

type Review = RequestOf<'review_request'>

/** Is this claim read by somebody else before it goes on? One without commits has nothing to read, but in dir mode. */
export const isReviewed = ({ config, mode }: Pick<Core, 'config' | 'mode'>, task: Task, head: string | null): boolean =>
  (task.review || config.review) && (mode === 'dir' || head !== null)

/** What the records call for. `back`: the claim is sent back, to somebody else where its owner was rejected too often. */
export type ReviewStep =
  | { readonly step: 'passed' | 'wait' | 'open' }
  | { readonly step: 'choose anew'; readonly request: string; readonly why: string }
  | { readonly step: 'back'; readonly reason: string; readonly toOther: boolean }

/**
 * What is next for a claim that may have to be reviewed, by the records alone:
 *
 *   no review of this claim  ──▶ open one      its reviewer cannot go on ──▶ end it, for another
 *   it waits                 ──▶ wait          approved                  ──▶ passed
 *   rejected                 ──▶ back, with the reasons; to another than its owner from the second rejection on
 *
 * `review` set meanwhile: a claim whose merge was asked for already is not read any more. Taken back meanwhile: a review that
 * was asked for counts all the same.
 */
export const nextOfReview = (core: Core, task: Task): ReviewStep => {
  const { claimed } = task
  if (claimed === null) return { step: 'passed' }
  const isAsked =
    isReviewed(core, task, claimed.head) &&
    !(claimed.head !== null && core.requests.mergeOf(task.id, task.attempts, claimed.head))
  const open = { step: isAsked ? 'open' : 'passed' } as const
  const reviews = core.requests.reviewsOf(task.id)
  const last = reviews.at(-1)
  if (last?.data.attempt !== task.attempts || last.data.head !== claimed.head) return open
  if (last.outcome === null) {
    const why = last.to === 'human' ? null : gone(core, last.to)
    return why === null ? { step: 'wait' } : { step: 'choose anew', request: last.id, why }
  }
  if (last.status === 'approved') return { step: 'passed' }
  if (last.outcome !== 'decided')
    // Whom the supervisor ended it for cannot go on: another is asked.
    return last.history.at(-1)?.by === 'supervisor'
      ? open
      : { step: 'back', reason: `its review ${last.id} was ${last.outcome}${reasonOf(last)}`, toOther: false }
  const rejections = reviews.filter(each => each.data.owner === task.owner && each.status === 'rejected').length
  return {
    step: 'back',
    reason: `the review ${last.id} was rejected by ${last.decidedBy}${reasonOf(last)}`,
    toOther: rejections >= rejectedAtMost,
  }
}

const reasonOf = ({ reason }: Review): string => (reason === null ? '' : `: ${reason}`)

/** Why this one will not read it; null where it may. */
const gone = (core: Core, name: string): string | null => {
  if (!core.roster.has(name) || core.roster.isLeaving(name)) return `${name} is not on the team any more`
  if (!isLive(core, name)) return `${name} does not run`
  if (core.budget.rests(name) !== null) return `${name} calls no model any more: its budget is used up`
  // A cap of the whole team holds everybody for one decision: then it waits for that one too.
  const short = core.requests.waiting(name).find(each => isBudget(each) && each.data.scope !== 'team')
  return short === undefined ? null : `${name} waits for more of its budget (${short.id})`
}

/**
 * Who reads it: somebody who runs and may call its model, can read and decide, and never had the task in hand. Who has nothing to do comes first, then
 * whoever is not the lead, then whoever reviewed least. Nobody: the human.
 */
export const reviewerFor = (core: Core, task: Task): string => {
  const { requests, tasks, members } = core
  const reviews = requests.all('supervisor').filter(each => each.type === 'review_request')
  const had = new Set([...(task.givenTo ?? []), task.owner])
  const rank = ({ name, lead }: Member): readonly number[] => {
    const own = reviews.filter(({ to }) => to === name)
    const isBusy = tasks.inHand(name) !== undefined || own.some(({ outcome }) => outcome === null)
    return [Number(isBusy), Number(lead), own.length]
  }
  const able = members
    .filter(member => !had.has(member.name) && gone(core, member.name) === null && canReview(member))
    .map(member => ({ name: member.name, rank: rank(member) }))
    .sort((a, b) => difference(a.rank, b.rank))
  return able[0]?.name ?? 'human'
}

/** A runbook does what it says and no more: it has no judgement to ask for. */
const canReview = ({ can, model }: Member): boolean =>
  can.includes('read_file') && can.includes('request') && model.provider !== 'runbook'

const difference = (a: readonly number[], b: readonly number[]): number => {
  for (const [i, value] of a.entries()) if (value !== b[i]) return value - (b[i] ?? 0)
  return 0
}

/** Of a description and of a reason; the whole of them is looked up. In characters. */
const longest = { description: 16_000, summary: 4000, reason: 2000 }

/** The request for the claim as it stands: all that its reader is to know, but for the changes, which `diff` shows. */
export const reviewOf = (
  core: Core,
  task: Task,
  brings: { readonly commits: number; readonly files: readonly string[] },
): Opening<'review_request'> => {
  const to = reviewerFor(core, task)
  const owner = task.owner ?? 'supervisor'
  const head = task.claimed?.head ?? null
  const verify = verifyCommands(core, task)
  const before = core.requests.reviewsOf(task.id).findLast(({ status }) => status === 'rejected')
  const where =
    head === null
      ? 'There is no diff: it was done in the workspace itself, as it stands there now.'
      : `At ${head.slice(0, 12)}: ${count(brings.commits, 'commit')}, ${count(brings.files.length, 'file')}.`
  return {
    type: 'review_request',
    from: 'supervisor',
    to,
    title: `review task ${task.id}: ${task.title}`,
    body: [
      `${owner} says that task ${task.id} is done. Does the work do what the task asks, all of it and nothing else, and is it right? Approve it; or reject it, with all that is to be mended as the reason; or ask.`,
      `The task:\n${short(task.description || '(no description)', longest.description, `the whole: task get ${task.id}`)}`,
      ...(task.paths.length > 0 ? [`It may touch: ${task.paths.join(', ')}`] : []),
      `What ${owner} says of it:\n${short(task.claimed?.summary || '(nothing)', longest.summary, '')}`,
      ...(task.accept.length > 0 ? [`Must fail without the work and pass with it: ${task.accept.join('; ')}`] : []),
      verify.length > 0
        ? `Checked by the supervisor after an approval: ${verify.join('; ')}`
        : 'No command checks it: your word is what it gets.',
      ...(before
        ? [
            `Rejected before, at ${before.data.head?.slice(0, 12) ?? 'an earlier claim'}, by ${before.decidedBy}: ${short(before.reason ?? '', longest.reason, '')}`,
          ]
        : []),
      where,
    ].join('\n\n'),
    data: {
      task: task.id,
      attempt: task.attempts,
      owner,
      head,
      commits: brings.commits,
      files: [...brings.files],
      verify,
    },
  }
}

const short = (text: string, most: number, rest: string): string =>
  text.length <= most ? text : `${cut(text, most)}\n(cut here${rest === '' ? '' : `; ${rest}`})`

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`

/** Those who are to read a review before they get anything else to do. */
export const reviewersDue = ({ requests, mail }: Pick<Core, 'requests' | 'mail'>): ReadonlySet<string> =>
  new Set(
    requests
      .waiting('supervisor')
      .filter(
        each => each.type === 'review_request' && each.status === 'pending' && !mail.wasRead(each.to, lastWord(each)),
      )
      .map(({ to }) => to),
  )
