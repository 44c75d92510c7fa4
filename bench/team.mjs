// The product's daemon in the measuring process, on a team root of its own in a temporary folder.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundle, folder, product } from './lib.mjs'

export const stub = fileURLToPath(new URL('./stub-teammate.mjs', import.meta.url))

/** A team root in `dir` mode with teammates t-1 … t-n (t alone when n is 1), whose work needs no lease. */
export const makeRoot = (name, teammates) => {
  const root = folder(name)
  mkdirSync(join(root, 'team'))
  writeFileSync(
    join(root, 'config.json'),
    JSON.stringify({
      mode: 'dir',
      sandbox: 'off',
      model: { provider: 'none', name: 'none', baseURL: 'http://127.0.0.1:9/v1' },
      teammates: [{ name: 't', count: teammates }],
    }),
  )
  return root
}

/** What is told for a value of the daemon's, or the fault as an error. */
export const must = result => {
  if (!result.ok) throw new Error(result.fault.message)
  return result.value
}

/**
 * Starts the daemon on `root` and waits until every teammate is idle. `library` is the product's entry as a module.
 * `ask(method, params)` asks as the human does; `stop` ends everyone.
 */
export const startTeam = async ({ root, entry = stub, onEntry = () => {}, library }) => {
  const { clock, loadConfig, startDaemon } = library ?? (await product('src/index.ts'))
  const { config, members, workspace, mode, dataPaths } = must(loadConfig(root))
  const threadEnv = { PATH: process.env.PATH ?? '', HOME: root }
  let left = members.length
  let allReady = () => {}
  const ready = new Promise(resolve => {
    allReady = resolve
  })
  const daemon = must(
    await startDaemon({
      root,
      workspace,
      mode,
      config,
      members,
      dataPaths,
      secrets: [],
      threadEnv,
      // No model is reached, whoever joins.
      endpoints: async members => ({ ok: true, value: { members, env: threadEnv, secrets: [] } }),
      threadEntry: entry,
      scribeEntry: await bundle('src/supervisor/scribe-main.ts'),
      probe: { kind: 'none', detail: 'not looked for', remedy: null },
      version: 'bench',
      clock,
      once: false,
      takeover: false,
      // A parent would be told whose work runs.
      onWork: () => {},
      onEntry(entry) {
        // Without it the work would never be done.
        if (entry.event === 'teammate.failed') throw new Error(`a teammate was given up: ${JSON.stringify(entry.info)}`)
        if (entry.event === 'teammate.ready' && --left === 0) allReady()
        onEntry(entry)
      },
    }),
  )
  await ready
  return {
    root,
    ask: async (method, params) => must(await daemon.handlers(method, params)),
    async stop() {
      must(await daemon.down({ force: true, timeoutMs: 0 }))
      await daemon.done
    },
  }
}

/** A task that any teammate may have beside any other. */
export const task = (id, dependsOn = [], more = {}) => ({ id, title: id, dependsOn, needs: [], ...more })
