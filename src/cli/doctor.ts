import { ok, type Result } from '../lib/result.ts'
import { findRoot } from '../store/root.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { type Check, machineChecks } from './doctor/machine.ts'
import { rootChecks } from './doctor/root.ts'
import { oneLine, table } from './render/text.ts'

/** `team doctor`. */
export const doctor = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'doctor',
    'Check this machine and this team root, and say what to mend (exit 1 when something must be)',
    y =>
      y
        .option('fix', {
          type: 'boolean',
          default: false,
          describe: 'mend what older or broken runs left, after a backup (no daemon may run)',
        })
        .option('json', { type: 'boolean', default: false, describe: 'the checks as JSON' })
        .example('$0 doctor --fix', 'what is taken away is moved to .team/doctor/')
        .example('$0 doctor', 'before the first team up, or when something is odd'),
    handler(cli, args => act(cli, args)),
  )

const act = async (cli: Cli, args: Globals & { json: boolean; fix: boolean }): Promise<Result<number>> => {
  const found = findRoot({ root: args.root, cwd: cli.cwd, env: cli.env })
  if (!found.ok && args.root !== undefined) return found
  const { checks, probe } = await machineChecks(cli.env)
  const all: Check[] = [...checks]
  if (args.fix && !found.ok) return found
  if (found.ok) {
    const checked = await rootChecks(cli, found.value, probe, args.fix)
    if (!checked.ok) return checked
    all.push(...checked.value)
  } else all.push({ what: 'team root', state: 'warn', detail: found.fault.message, remedy: found.fault.hint ?? null })
  const bad = all.filter(check => check.state === 'fail').length
  if (args.json) cli.out.json(all)
  else {
    const { paint } = cli
    const mark = { ok: paint.green('ok'), warn: paint.yellow('warn'), fail: paint.red('FAIL') }
    cli.out.say(table(all.map(check => [mark[check.state], check.what, oneLine(check.detail, 300)])))
    for (const { state, whats, remedy } of remediesOf(all))
      cli.out.say(`\n${mark[state]} ${whats.join(', ')}: ${oneLine(remedy, 600)}`)
  }
  return ok(bad > 0 ? 1 : 0)
}

/** Each remedy once, with all that it is for. */
const remediesOf = (checks: readonly Check[]) => {
  const told = new Map<string, { state: Check['state']; remedy: string; whats: string[] }>()
  for (const { state, what, remedy } of checks) {
    if (state === 'ok' || !remedy) continue
    const same = told.get(`${state} ${remedy}`)
    if (!same) told.set(`${state} ${remedy}`, { state, remedy, whats: [what] })
    else if (!same.whats.includes(what)) same.whats.push(what)
  }
  return [...told.values()]
}
