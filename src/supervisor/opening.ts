import { timerMs } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { PlanData, type RequestType, requestTypes } from '../protocol/request-types.ts'
import type { RpcParsed } from '../protocol/rpc.ts'
import { type Core, deciderOf } from './core.ts'
import { asking } from './lease-gate.ts'
import { mayOpen } from './open-bound.ts'
import { askPermission } from './permissions.ts'
import type { Opening } from './requests.ts'

/**
 * What an asker says, as the request that the table makes of it: who may open it, who decides, until when. What it is about
 * (the task in hand) is the holder's word, never the asker's.
 */
export const opening = (core: Core, actor: string, asked: RpcParsed<'request.open'>): Result<Opening<RequestType>> => {
  const opening = made(core, actor, asked)
  // What is there already is told once more, whatever else is open.
  if (!opening.ok || core.requests.same(opening.value)) return opening
  const may = mayOpen(core, actor, opening.value)
  return may.ok ? opening : may
}

const made = (
  core: Core,
  actor: string,
  { type, title, body, data }: RpcParsed<'request.open'>,
): Result<Opening<RequestType>> => {
  const entry = requestTypes[type]
  if (entry.opens === 'supervisor')
    return fail('refused', `${type} is opened by the supervisor alone`, 'a claim opens it: task complete')
  if (type === 'shutdown_request') return shutdown(core, actor, [title, body].filter(Boolean).join('\n\n'), data)
  if (actor === 'human') return fail('refused', `${type} is opened by a teammate`, 'you may simply say so: team send')
  if (type === 'permission_request')
    return typeof data.command === 'string' && data.command.trim() !== ''
      ? askPermission(core, actor, data.command, body)
      : fail('invalid', 'say in data.command what you want to run', 'bash asks by itself: just call it')
  const parsed = entry.data.safeParse({ ...data, task: core.tasks.inHand(actor)?.value.id ?? null })
  if (!parsed.success)
    return fail(
      'invalid',
      parsed.error.issues.map(issue => `data.${issue.path.join('.')}: ${issue.message}`).join('; '),
    )
  if (type === 'resource_request') {
    const may = asking(core, actor, parsed.data as Opening<'resource_request'>['data'])
    if (!may.ok) return may
  }
  const proposed = type === 'plan_request' ? PlanData.parse(parsed.data).tasks : undefined
  if ((type === 'question' || type === 'plan_request') && body.trim() === '' && !proposed)
    return fail('invalid', `say in body what you ${type === 'question' ? 'ask' : 'plan'}`)
  if (proposed !== undefined) {
    const can = core.tasks.check(proposed)
    if (!can.ok) return can
  }
  return ok({
    type,
    from: actor,
    to: deciderOf(core, type, actor),
    title: title?.trim() || entry.title({ from: actor, body, data: parsed.data }),
    body,
    data: parsed.data as Opening<RequestType>['data'],
  })
}

const shutdown = (
  core: Core,
  actor: string,
  body: string,
  data: Readonly<Record<string, unknown>>,
): Result<Opening<RequestType>> => {
  const of = typeof data.teammate === 'string' ? data.teammate : actor
  const own = of === actor
  if (!own && actor !== 'human' && actor !== core.config.lead)
    return fail('refused', 'only the human or the lead may ask a teammate to shut down')
  const given = typeof data.graceMs === 'number' ? data.graceMs : core.config.limits.graceSeconds * 1000
  if (!(given >= 0)) return fail('invalid', `graceMs is ${given}`, 'give milliseconds, 0 or more')
  const graceMs = timerMs(given)
  return ok({
    type: 'shutdown_request',
    from: actor,
    to: own ? 'human' : of,
    title: own ? requestTypes.shutdown_request.title({ from: actor, body, data }) : `shut down, ${of}`,
    body,
    data: { teammate: of, graceMs },
    ...(own ? {} : { deadlineMs: graceMs }),
  })
}
