import { timerMs } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { type AddressedType, type RequestType, type RequestTypeEntry, requestTypes } from '../protocol/request-types.ts'
import type { RpcParsed } from '../protocol/rpc.ts'
import { type Core, deciderOf } from './core.ts'
import { asking } from './lease-gate.ts'
import { mayOpen } from './open-bound.ts'
import { askPermission } from './permissions.ts'
import type { Opening } from './requests.ts'

type Asked = RpcParsed<'request.open'>
type Data = Opening<RequestType>['data']

/** Types whose content the holder works out from what the asker says. */
const workedOut: Partial<
  Record<RequestType, (core: Core, actor: string, asked: Asked) => Result<Opening<RequestType>>>
> = {
  shutdown_request: (core, actor, asked) => shutdown(core, actor, asked) as Result<Opening<RequestType>>,
  permission_request: (core, actor, { body, data }) =>
    typeof data.command === 'string' && data.command.trim() !== ''
      ? askPermission(core, actor, data.command, body)
      : fail('invalid', 'say in data.command what you want to run', 'bash asks by itself: just call it'),
}

/** What must hold, beyond its schema, before a request of the type is opened. */
const checks: Partial<Record<RequestType, (core: Core, actor: string, data: Data) => Result<null>>> = {
  resource_request: (core, actor, data) => {
    const asked = data as Opening<'resource_request'>['data']
    return asked.kind === 'budget'
      ? fail('refused', 'more of a budget is asked for by the supervisor, where a call would go past it')
      : asking(core, actor, asked)
  },
  plan_request: ({ tasks }, _actor, data) => {
    const proposed = (data as Opening<'plan_request'>['data']).tasks
    return proposed === undefined ? ok(null) : tasks.check(proposed)
  },
}

/**
 * What an asker says, as the request that the table makes of it: who may open it, who decides, until when. What it is about
 * (the task in hand) is the holder's word, never the asker's.
 */
export const opening = (core: Core, actor: string, asked: Asked): Result<Opening<RequestType>> => {
  const opening = made(core, actor, asked)
  // What is there already is told once more, whatever else is open.
  if (!opening.ok || core.requests.same(opening.value)) return opening
  const may = mayOpen(core, actor, opening.value)
  return may.ok ? opening : may
}

const made = (core: Core, actor: string, asked: Asked): Result<Opening<RequestType>> => {
  const { type, title, body } = asked
  const entry: RequestTypeEntry = requestTypes[type]
  if (entry.opens === 'supervisor')
    return fail('refused', `${type} is opened by the supervisor alone`, 'a claim opens it: task complete')
  if (entry.opens === 'teammate' && actor === 'human')
    return fail('refused', `${type} is opened by a teammate`, 'you may simply say so: team send')
  // It would wait about no task, and nobody for it.
  const { during } = asked
  if (during !== undefined && entry.parks && core.tasks.inHand(actor)?.value.id !== during)
    return fail('refused', `task ${during} is not in your hands any more`, 'end your turn')
  const worked = workedOut[type]?.(core, actor, asked)
  if (worked) return worked
  const parsed = entry.data.safeParse({ ...asked.data, task: core.tasks.inHand(actor)?.value.id ?? null })
  if (!parsed.success)
    return fail(
      'invalid',
      parsed.error.issues.map(issue => `data.${issue.path.join('.')}: ${issue.message}`).join('; '),
    )
  const data = parsed.data as Data
  // Tasks that are proposed speak for themselves.
  if (entry.says !== null && body.trim() === '' && !('tasks' in data && data.tasks))
    return fail('invalid', `say in body what ${entry.says}`)
  const may = checks[type]?.(core, actor, data)
  if (may && !may.ok) return may
  const isStuck = type === 'plan_request' && isRejectedAlways(core, (data as Opening<'plan_request'>['data']).task)
  const to = isStuck ? 'human' : deciderOf(core, type as Exclude<RequestType, AddressedType>, actor)
  return ok({ type, from: actor, to, title: title?.trim() || entry.title({ from: actor, body, data }), body, data })
}

/** So many plans for one task that a teammate rejected, one after the other: two models would go on so for ever. */
export const rejectedAtMost = 8

const isRejectedAlways = ({ requests }: Core, task: string | null): boolean => {
  const last = task === null ? [] : requests.plansFor(task).slice(-rejectedAtMost)
  return last.length === rejectedAtMost && last.every(each => each.status === 'rejected' && each.decidedBy !== 'human')
}

const shutdown = (core: Core, actor: string, { title, body, data }: Asked): Result<Opening<'shutdown_request'>> => {
  const of = typeof data.teammate === 'string' ? data.teammate : actor
  const own = of === actor
  if (!own && actor !== 'human' && actor !== core.config.lead)
    return fail('refused', 'only the human or the lead may ask a teammate to shut down')
  const given = typeof data.graceMs === 'number' ? data.graceMs : core.config.limits.graceSeconds * 1000
  if (!(given >= 0)) return fail('invalid', `graceMs is ${given}`, 'give milliseconds, 0 or more')
  return ok({
    type: 'shutdown_request',
    from: actor,
    to: own ? 'human' : of,
    title: own ? requestTypes.shutdown_request.title({ from: actor, body, data }) : `shut down, ${of}`,
    body: [title, body].filter(Boolean).join('\n\n'),
    data: { teammate: of, graceMs: timerMs(given) },
  })
}
