import { iso } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { firstWords } from '../lib/text.ts'
import type { Permissions } from '../protocol/config.ts'
import { isWaiting, type Request, type RequestOf } from '../protocol/request.ts'
import { type RequestType, requestTypes } from '../protocol/request-types.ts'
import type { GivenRule, Use } from '../protocol/rpc.ts'
import { narrowRule, obstacle } from '../sandbox/rules.ts'
import { type Core, deciderOf } from './core.ts'
import type { Opening } from './requests.ts'

/** What the human gave from now on, as a mark by the request that asked for it; `removed` says when it was taken back. */
type RuleMark = GivenRule & { readonly removed: string | null }
const marked = 'permission/'

/**
 * What a teammate asks when the rules alone do not allow a command: all but the asker's own words (`says`) is the holder's.
 * What is waiting already is asked in the same words again, so that it is the same request.
 */
export const askPermission = (
  core: Core,
  actor: string,
  command: string,
  says: string,
): Result<Opening<RequestType>> => {
  const task = core.tasks.inHand(actor)?.value.id ?? null
  const same = core.requests.waiting().find(request => isFor(request, actor, task, command))
  if (same?.type === 'permission_request') {
    const { type, from, to, title, body, data } = same
    return ok({ type, from, to, title, body, data })
  }
  const permissions = permissionsOf(core, actor)
  const found = obstacle(command, permissions, core.sandboxed, rulesOf(core, actor))
  if (!found) return fail('refused', 'no rule is in the way of this command: run it')
  if (!found.asks) return fail('refused', `${found.reason}: nobody is asked about that`)
  if (core.config.sandbox === 'required' && !core.sandboxed)
    return fail('refused', 'there is no sandbox, and config.json requires one: no permission makes a command run')
  const parsed = requestTypes.permission_request.data.safeParse({
    task,
    command,
    ...narrowRule(command, permissions),
    sandboxed: core.sandboxed,
  })
  if (!parsed.success) return fail('invalid', parsed.error.issues.map(issue => issue.message).join('; '))
  const { data } = parsed
  const before = core.requests.all().findLast(request => isFor(request, actor, task, command))
  const body = [
    command,
    '',
    `Why it is asked: ${found.reason}.`,
    ...(before ? [earlier(before)] : []),
    data.rule === null
      ? 'No rule for it would be narrow: it can be allowed once.'
      : `Approved it runs once; with --always, \`${data.rule}\` is allowed from now on, to ${actor} alone.`,
    ...(says.trim() === '' ? [] : [`${actor} says: ${says.trim()}`]),
  ]
  return ok({
    type: 'permission_request',
    from: actor,
    to: deciderOf(core, 'permission_request', actor),
    title: `${actor} wants to run: ${firstWords(command)}`,
    body: body.join('\n'),
    data,
  })
}

/**
 * May this command run? By a rule that was given, or by a permission for one run: the intent to use that is on record before
 * the answer, so that it serves once, whatever happens next.
 */
export const usePermission = (core: Core, actor: string, command: string): Result<Use> => {
  const permissions = permissionsOf(core, actor)
  const found = obstacle(command, permissions, core.sandboxed, rulesOf(core, actor))
  if (!found) return ok({ how: 'rule' })
  if (!found.asks) return fail('refused', found.reason)
  const task = core.tasks.inHand(actor)?.value.id ?? null
  const granted = core.requests.all().find(request => isUnused(request) && isFor(request, actor, task, command))
  if (!granted) return ok({ how: 'ask', why: found.reason })
  const intent = core.requests.effect(granted.id, 'intent')
  return intent.ok ? ok({ how: 'once', request: granted.id }) : intent
}

/** Puts on record what came of the run that a permission was used for. */
export const endUse = (
  core: Core,
  actor: string,
  { request: id, exit, detail }: { request: string; exit: number | null; detail: string },
): Result<null> => {
  const request = core.requests.get(id)?.value
  if (request?.type !== 'permission_request' || request.from !== actor || request.effect?.step !== 'intent')
    return fail('refused', `${id} is no permission that ${actor} is using`)
  const done = core.requests.effect(id, 'done', exit === 0 ? 'ok' : 'failed', detail)
  return done.ok ? ok(null) : done
}

/** Before a teammate's thread does anything: a permission that it used and never told the end of is used up, its end unknown. */
export const settleUses = (core: Core, actor: string): void => {
  for (const request of core.requests.all())
    if (request.type === 'permission_request' && request.from === actor && request.effect?.step === 'intent')
      core.requests.effect(request.id, 'done', 'unknown', 'it was cut off; whether the command ran is not known')
}

/** Why this decision cannot also give the rule that was shown; null when it can. */
export const cannotGive = (request: Request, by: string, decision: string): ReturnType<typeof fail> | null => {
  if (by !== 'human') return fail('refused', 'only the human allows anything from now on')
  if (request.type !== 'permission_request' || decision !== 'approve')
    return fail('usage', `${request.id} is a ${request.type}: --always goes with the approval of a permission_request`)
  // What waits no longer is refused for that.
  return request.data.rule === null && isWaiting(request)
    ? fail(
        'refused',
        `no rule for this command would be narrow: ${request.id} can be allowed once`,
        'leave out --always',
      )
    : null
}

/** The rule that an approved request showed holds from now on, for its asker; that is what came of the request. */
export const giveRule = (core: Core, request: RequestOf<'permission_request'>): string => {
  const { rule, past, sandboxed } = request.data
  if (rule === null) throw new Error(`${request.id} shows no rule`)
  const at = iso(core.clock.wall())
  const mark: RuleMark = { request: request.id, teammate: request.from, rule, past, sandboxed, at, removed: null }
  const info = { request: request.id, name: request.from, rule }
  core.store.marks.create(`${marked}${request.id}`, { ...mark }, { event: 'permission.given', by: 'human', info })
  const given = `\`${rule}\` is allowed to ${request.from} from now on`
  core.requests.effect(request.id, 'done', 'ok', given)
  return given
}

export const listPermissions = (core: Core): { rules: GivenRule[]; unused: RequestOf<'permission_request'>[] } => ({
  rules: allRules(core),
  unused: core.requests.all().filter(isUnused),
})

/** Takes a given rule back, or a permission for a run that has not come: by the id of the request. */
export const removePermission = (core: Core, id: string): Result<string> => {
  const request = core.requests.find(id)?.value
  const rec = core.store.marks.get(`${marked}${request?.id ?? id}`)
  const mark = rec?.value as RuleMark | undefined
  if (rec && mark?.removed === null) {
    const { request: of, teammate: name, rule } = mark
    const why = { event: 'permission.removed' as const, by: 'human', info: { request: of, name, rule } }
    core.store.marks.update(`${marked}${of}`, rec.rev, { ...mark, removed: iso(core.clock.wall()) }, why)
    return ok(`\`${rule}\` is not allowed to ${name} any more`)
  }
  if (request && isUnused(request)) {
    const done = core.requests.effect(request.id, 'done', 'released', 'the human took it back before it was used')
    return done.ok ? ok(`${request.id} is taken back, unused`) : done
  }
  return fail('unknown', `there is no permission ${id} that holds`, 'team permissions lists them')
}

const allRules = ({ store }: Core): GivenRule[] =>
  [...store.marks.list()].flatMap(([id, { value }]) => {
    if (!id.startsWith(marked)) return []
    const { removed, ...rule } = value as unknown as RuleMark
    return removed === null ? [rule] : []
  })

/** Those that hold for this teammate: one that was given for the sandbox does not hold without it. */
const rulesOf = (core: Core, name: string): GivenRule[] =>
  allRules(core).filter(rule => rule.teammate === name && (core.sandboxed || !rule.sandboxed))

const permissionsOf = (core: Core, name: string): Permissions =>
  core.members.find(member => member.name === name)?.permissions ?? core.config.permissions

const isFor = (request: Request, actor: string, task: string | null, command: string): boolean =>
  request.type === 'permission_request' &&
  request.from === actor &&
  request.data.task === task &&
  request.data.command === command

const isUnused = (request: Request): request is RequestOf<'permission_request'> =>
  request.type === 'permission_request' && request.status === 'approved' && request.effect === null

/** What came of the same wish before, for who decides again. */
const earlier = ({ id, status, outcome, reason, effect }: Request): string => {
  if (status === 'rejected') return `It was rejected before (${id}): ${reason ?? 'no reason given'}.`
  if (outcome !== 'decided')
    return `It was asked for before (${id}), which ${outcome === 'expired' ? 'expired' : 'was withdrawn'}.`
  return effect?.outcome === 'unknown'
    ? `It was permitted before (${id}), and cut off: whether it ran is not known.`
    : `It was permitted before (${id}): ${effect?.detail ?? 'not used yet'}.`
}
