import { ok, type Result } from '../lib/result.ts'
import { resolveModel } from '../model/index.ts'
import { startRunbook } from '../model/runbook/server.ts'
import type { Member, ModelConfig } from '../protocol/config.ts'
import type { Env } from './cli.ts'

/** The endpoints of a team, ready for its threads. */
export interface Models {
  /** The members, each with its model resolved. */
  readonly members: readonly Member[]
  /** What the threads need of the environment to reach them, keys included. */
  readonly env: Readonly<Record<string, string>>
  /** The keys' values, never to be shown. */
  readonly secrets: readonly string[]
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
  const resolved: { member: Member; config: ModelConfig; needsRunbook: boolean }[] = []
  const threadEnv: Record<string, string> = {}
  const secrets = new Set<string>()
  for (const member of members) {
    const model = resolveModel(member.model, env)
    if (!model.ok) {
      const { fault } = model
      return { ok: false, fault: { ...fault, message: `${member.name}: ${fault.message}` } }
    }
    const { config, keyEnv, needsRunbook } = model.value
    const key = keyEnv === null ? undefined : env[keyEnv]
    if (keyEnv !== null && key !== undefined && key !== '') {
      threadEnv[keyEnv] = key
      secrets.add(key)
    }
    resolved.push({ member, config, needsRunbook })
  }
  for (const name of network) if (env[name] !== undefined) threadEnv[name] = env[name]
  const runbook = resolved.some(each => each.needsRunbook) ? await startRunbook() : null
  return ok({
    members: resolved.map(({ member, config, needsRunbook }) => ({
      ...member,
      model: needsRunbook && runbook ? { ...config, baseURL: runbook.baseURL } : config,
    })),
    env: threadEnv,
    secrets: [...secrets],
    close: async () => runbook?.close(),
  })
}
