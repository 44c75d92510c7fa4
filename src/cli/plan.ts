import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { parse, stringify } from 'yaml'
import * as z from 'zod'
import { fail, ok, type Result } from '../lib/result.ts'
import { issueLines } from '../protocol/issues.ts'
import type { Request, RequestOf } from '../protocol/request.ts'
import { TaskDrop } from '../protocol/task.ts'
import { type Cli, type Commands, type Globals, handler } from './cli.ts'
import { readText } from './input.ts'
import { type Team, withTeam } from './with-team.ts'

/** `team plan "<goal>"` and `team plan --edit <id>`. */
export const plan = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'plan [goal]',
    'Have the lead propose tasks for a goal; you edit and approve them',
    y =>
      y
        .positional('goal', { type: 'string', describe: 'what is to be reached; - reads stdin' })
        .option('edit', { type: 'string', describe: 'change the tasks that this plan request proposes, in $EDITOR' })
        .option('from', {
          type: 'string',
          describe: 'with --edit: take the tasks from this file (YAML or JSON) instead',
        })
        .option('json', { type: 'boolean', default: false, describe: 'the answer as JSON' })
        .example('$0 plan "Support time zones in reports"', 'the plan comes as a request: team requests')
        .example('$0 plan --edit req_4 && $0 approve req_5', 'an edited plan is a new request'),
    handler(cli, args => act(cli, args)),
  )

interface Plan extends Globals {
  goal: string | undefined
  edit: string | undefined
  from: string | undefined
  json: boolean
}

const act = async (cli: Cli, args: Plan): Promise<Result<number>> => {
  if (args.edit !== undefined) {
    const id = args.edit
    if (args.goal !== undefined) return fail('usage', 'give a goal or --edit, not both')
    return withTeam(cli, args, 'change', team => edit(cli, args, team, id))
  }
  const read = await readText(cli, { text: args.goal ?? cli.rest[0], file: undefined })
  if (!read.ok) return read
  const goal = read.value?.trim()
  if (!goal) return fail('usage', 'say what is to be reached', 'team plan "Support time zones in reports"')
  return withTeam(cli, args, 'change', async team => {
    const asked = await team.call('plan.ask', { goal })
    if (!asked.ok) return asked
    const { task } = asked.value
    if (args.json) cli.out.json(task)
    else cli.out.say(`task ${task.id} is for ${task.assignee}: the plan will come as a request, team requests shows it`)
    team.later('It is taken up after the next team up.')
    return ok(0)
  })
}

const edit = async (cli: Cli, args: Plan, team: Team, id: string): Promise<Result<number>> => {
  const got = await team.call('request.get', { id })
  if (!got.ok) return got
  const request = got.value.request
  if (!isPlan(request) || request.data.tasks === undefined)
    return fail('usage', `${request.id} proposes no tasks`, 'team requests shows what there is')
  const text =
    args.from === undefined ? await edited(cli, request) : await readText(cli, { text: undefined, file: args.from })
  if (!text.ok) return text
  const tasks = parsed(text.value ?? '')
  if (!tasks.ok) return tasks
  const revised = await team.call('plan.revise', { id: request.id, tasks: tasks.value })
  if (!revised.ok) return revised
  const next = revised.value.request
  if (args.json) cli.out.json(next)
  else if (next.id === request.id) cli.out.say(`${next.id} is unchanged`)
  else cli.out.say(`${request.id} is superseded by ${next.id}, with your changes: team approve ${next.id}`)
  return ok(0)
}

const isPlan = (request: Request): request is RequestOf<'plan_request'> => request.type === 'plan_request'

/** What the person's editor made of the proposal. */
const edited = async (cli: Cli, request: RequestOf<'plan_request'>): Promise<Result<string>> => {
  const editor = cli.env.VISUAL || cli.env.EDITOR
  if (!editor) return fail('usage', 'no editor is set', 'set EDITOR, or give the tasks with --from <file>')
  const folder = mkdtempSync(join(tmpdir(), 'team-plan-'))
  try {
    const file = join(folder, `${request.id}.yaml`)
    const head = `# ${request.id}: the tasks that ${request.from} proposes. Save to propose these instead; nothing is created before you approve.\n`
    writeFileSync(file, `${head}${stringify(request.data.tasks)}`)
    // As git does it: the setting may hold arguments, so a shell reads it.
    const ran = await execa('sh', ['-c', `${editor} "$@"`, editor, file], { stdio: 'inherit', reject: false })
    if (ran.exitCode !== 0)
      return fail('io', `the editor ended with ${ran.exitCode ?? ran.signal}: nothing was changed`)
    return ok(readFileSync(file, 'utf8'))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const parsed = (text: string): Result<TaskDrop[]> => {
  let value: unknown
  try {
    value = parse(text)
  } catch (cause) {
    return fail(
      'usage',
      `the tasks cannot be read: ${cause instanceof Error ? cause.message.split('\n')[0] : cause}`,
      undefined,
      cause,
    )
  }
  const tasks = z.array(TaskDrop).min(1).safeParse(value)
  return tasks.success
    ? ok(tasks.data)
    : fail('usage', `the tasks: ${issueLines(tasks.error.issues, Object.keys(TaskDrop.shape)).join('; ')}`)
}
