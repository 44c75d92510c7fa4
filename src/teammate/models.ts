import { lastAnswering, lineOf } from '../agent/line.ts'
import type { Gate } from '../agent/retry.ts'
import type { Session } from '../agent/session.ts'
import type { Clock } from '../lib/clock.ts'
import { unwrap } from '../lib/result.ts'
import { openModel, resolveModel } from '../model/index.ts'
import type { Model } from '../model/model.ts'
import type { Limits, Member } from '../protocol/config.ts'
import { labelsOf } from '../protocol/fallbacks.ts'
import type { Call } from '../protocol/rpc.ts'
import type { FromThread } from '../protocol/thread.ts'
import { learnedOf, readLearned } from '../store/learned.ts'
import { sharedGate } from './gate.ts'

/**
 * The model of a teammate with its fallbacks, as one, and `member` with its model resolved: its window is that of the smallest of
 * them, since any may have to take the conversation. Throws where one cannot be resolved: the holder did so before.
 */
export const openModels = (o: {
  readonly root: string
  readonly member: Member
  readonly env: Readonly<Record<string, string | undefined>>
  readonly limits: Limits
  readonly session: Session
  readonly clock: Clock
  readonly call: Call
  readonly post: (message: FromThread) => void
}): { readonly member: Member; readonly model: Model; readonly gate: Gate; end(): void } => {
  const { root, member, env, limits, session, clock, call, post } = o
  const event = (event: 'warning' | 'model.fallback', info: Record<string, unknown>) =>
    post({ t: 'event', event, info: { name: member.name, ...info } })
  const resolved = [member.model, ...member.fallbacks.map(({ model }) => model)].map(each =>
    unwrap(resolveModel(each, env)),
  )
  const labels = labelsOf(resolved.map(({ config }) => config))
  const learned = readLearned(root).models
  const opened = resolved.map(({ config, keyEnv }, i) => {
    const { baseURL = '', name = '' } = config
    const model = openModel({
      config,
      label: labels[i],
      apiKey: keyEnv === null ? undefined : env[keyEnv],
      idleMs: limits.modelIdleSeconds * 1000,
      learned: learnedOf(learned, baseURL, name),
      onLearned: (what, why) =>
        void call('model.learn', { baseURL, name, learned: what, why }).then(kept => {
          if (!kept.ok) event('warning', { text: `what ${name} taught could not be kept: ${kept.fault.message}` })
        }),
    })
    // What one model of an endpoint has used up says nothing of another one that is there to take its calls.
    const isSecond = resolved.findIndex(each => each.config.baseURL === config.baseURL) < i
    const endpoint = isSecond ? `${baseURL} ${model.label}` : baseURL || model.label
    const isCheaper = member.fallbacks[i - 1]?.isCheaper === true
    return { model, gate: sharedGate(endpoint, clock, call), isCheaper }
  })
  const configs = resolved.map(({ config }) => config)
  const least = Math.min(...configs.map(({ contextWindow }) => contextWindow ?? Number.POSITIVE_INFINITY))
  const most = Math.max(...configs.map(({ maxOutputTokens }) => maxOutputTokens ?? 0))
  return {
    ...lineOf({
      models: opened,
      answering: session.context.inTurn ? lastAnswering(session) : null,
      clock,
      onSwitch: (from, to, why) =>
        event('model.fallback', {
          from,
          to,
          ...(why === null
            ? { back: true }
            : why === 'budget'
              ? { kind: why, why: 'little of the budget is left' }
              : { kind: why.kind, why: why.message }),
        }),
    }),
    member: {
      ...member,
      model: {
        ...configs[0],
        ...(Number.isFinite(least) ? { contextWindow: least } : {}),
        ...(most > 0 ? { maxOutputTokens: most } : {}),
      },
    },
    end: () => {
      for (const { gate } of opened) gate.end()
    },
  }
}
