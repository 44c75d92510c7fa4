import { fail, ok, type Result } from '../lib/result.ts'
import { type Resolved, resolveModel } from '../model/index.ts'
import { startRunbook } from '../model/runbook/server.ts'
import { type Member, type ModelConfig, needsPrice } from '../protocol/config.ts'
import type { Endpoints } from '../supervisor/daemon-options.ts'
import type { Env } from './cli.ts'

/** The endpoints of a team, ready for its threads. */
export interface Models extends Endpoints {
  /** The same for other members, while the team runs. */
  resolve(members: readonly Member[]): Promise<Result<Endpoints>>
  /** Ends what was started for them. */
  close(): Promise<void>
}

/** Variables that decide how any endpoint is reached from this machine. */
const network = [
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
]

/**
 * Resolves each member's model by config and environment, and starts the embedded runbook server once where one needs it.
 * Faults name the member and what is missing.
 */
export const openModels = async (members: readonly Member[], env: Env): Promise<Result<Models>> => {
  let runbook: Promise<{ readonly baseURL: string; close(): Promise<void> }> | null = null
  const server = () => {
    runbook ??= startRunbook()
    return runbook
  }
  const resolve = (some: readonly Member[]) => endpoints(some, env, server)
  const first = await resolve(members)
  return first.ok ? ok({ ...first.value, resolve, close: async () => (await runbook)?.close() }) : first
}

const endpoints = async (
  members: readonly Member[],
  env: Env,
  runbookServer: () => Promise<{ readonly baseURL: string }>,
): Promise<Result<Endpoints>> => {
  const resolved: { member: Member; config: ModelConfig; needsRunbook: boolean }[] = []
  const threadEnv: Record<string, string> = {}
  const secrets = new Set<string>()
  const takeKey = (keyEnv: string | null): void => {
    const key = keyEnv === null ? undefined : env[keyEnv]
    if (keyEnv === null || key === undefined || key === '') return
    threadEnv[keyEnv] = key
    secrets.add(key)
  }
  for (const member of members) {
    const model = resolveModel(member.model, env)
    if (!model.ok) {
      const { fault } = model
      return { ok: false, fault: { ...fault, message: `${member.name}: ${fault.message}` } }
    }
    const { config, keyEnv, needsRunbook } = model.value
    if (member.capsCost && member.price === null && !needsRunbook)
      return fail('config', `${member.name}: ${needsPrice}`)
    takeKey(keyEnv)
    const fallbacks = resolveFallbacks(member, env)
    if (!fallbacks.ok) return fallbacks
    for (const each of fallbacks.value) takeKey(each.keyEnv)
    const complete = member.fallbacks.map((each, i) => ({ ...each, model: fallbacks.value[i]?.config ?? each.model }))
    resolved.push({ member: { ...member, fallbacks: complete }, config, needsRunbook })
  }
  for (const name of network) if (env[name] !== undefined) threadEnv[name] = env[name]
  const runbook = resolved.some(each => each.needsRunbook) ? await runbookServer() : null
  return ok({
    members: resolved.map(({ member, config, needsRunbook }) => ({
      ...member,
      model: needsRunbook && runbook ? { ...config, baseURL: runbook.baseURL } : config,
    })),
    env: threadEnv,
    secrets: [...secrets],
  })
}

/** Those of one member, in their order. A runbook carries out what it is told and thinks nothing: it is no other model. */
export const resolveFallbacks = (member: Pick<Member, 'name' | 'fallbacks'>, env: Env): Result<Resolved[]> => {
  const all: Resolved[] = []
  for (const [i, { model, isCheaper }] of member.fallbacks.entries()) {
    const resolved = resolveModel(model, env)
    const at = `${member.name}: ${isCheaper ? 'model.cheaper' : `model.fallbacks[${i}]`}`
    if (!resolved.ok) return { ok: false, fault: { ...resolved.fault, message: `${at}: ${resolved.fault.message}` } }
    if (resolved.value.needsRunbook)
      return fail(
        'config',
        `${at} comes to the runbook executor, which takes no calls of a model`,
        'give it another provider, or a baseURL',
      )
    all.push(resolved.value)
  }
  return ok(all)
}
