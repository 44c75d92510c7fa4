// The whole time of a command, as a person at a terminal waits for it.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { folder, now, top } from '../lib.mjs'

const command = join(top, 'dist', 'team.cjs')
const repeats = 15

export default {
  title: 'Start of a command',
  method:
    `The whole process by spawnSync, ${repeats} times a turn. \`team status\` asks a running daemon of two idle teammates. ` +
    'NODE_EXTRA_CA_CERTS is unset: it alone costs tens of milliseconds at each start of Node.',
  turns: 3,
  base: 'node -e 0',
  columns: [
    { key: 'p50', label: 'p50, ms', ratio: true },
    { key: 'p90', label: 'p90, ms' },
  ],
  async prepare() {
    const root = folder('status')
    const { NODE_EXTRA_CA_CERTS: _, ...env } = process.env
    const run = (...args) => spawnSync(process.execPath, args, { cwd: root, env, encoding: 'utf8', timeout: 60_000 })
    const team = (...args) => run(command, ...args, '--root', root)
    const measure =
      (...args) =>
      async () => {
        const times = []
        for (let i = 0; i < repeats; i++) {
          const from = now()
          const { status, stderr } = run(...args)
          times.push(now() - from)
          if (status !== 0) throw new Error(`node ${args.join(' ')} ended with ${status}: ${stderr}`)
        }
        times.sort((a, b) => a - b)
        return { p50: times[Math.floor(repeats * 0.5)], p90: times[Math.floor(repeats * 0.9)] }
      }

    const bare = { name: 'node -e 0', measure: measure('-e', '0') }
    const without = why => ({
      variants: [bare],
      missing: [{ name: 'team status', why }],
      close: async () => {},
    })
    if (!existsSync(command)) return without('dist/team.cjs is not built (npm run build)')
    mkdirSync(join(root, 'team'))
    writeFileSync(
      join(root, 'config.json'),
      JSON.stringify({
        mode: 'dir',
        sandbox: 'off',
        model: { provider: 'runbook' },
        teammates: [{ name: 'alice' }, { name: 'bob' }],
      }),
    )
    const up = team('up', '-d')
    if (up.status !== 0) return without(`\`team up -d\` ended with ${up.status}: ${up.stderr.trim().split('\n')[0]}`)
    return {
      variants: [
        bare,
        { name: 'team status', measure: measure(command, 'status', '--root', root) },
        { name: 'team task list', measure: measure(command, 'task', 'list', '--root', root) },
      ],
      missing: [],
      async close() {
        const down = team('down', '--force')
        if (down.status !== 0) throw new Error(`\`team down --force\` ended with ${down.status}: ${down.stderr}`)
      },
    }
  },
}
