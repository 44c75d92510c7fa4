import { fail, ok, type Result } from '../lib/result.ts'
import type { TaskDrop, TaskStatus } from '../protocol/task.ts'
import { taskStatuses } from '../protocol/task-status.ts'
import { type Cli, type Commands, forEach, type Globals, handler } from './cli.ts'
import { readText } from './input.ts'
import { renderGraph } from './render/graph.ts'
import { renderTasks } from './render/status.ts'
import { renderTask } from './render/task.ts'
import { withTeam } from './with-team.ts'

/** `team task add|list|show|graph|retry|cancel`. */
export const task = (commands: Commands, cli: Cli): Commands =>
  commands.command('task', 'Add tasks and look at them', y =>
    y
      .command(
        'add <title>',
        'Add a task',
        z =>
          z
            .positional('title', { type: 'string', demandOption: true, describe: 'what is to be done, in a line' })
            .option('description', { alias: 'd', type: 'string', describe: 'the whole text; - reads stdin' })
            .option('file', { type: 'string', describe: 'read the description from this file' })
            .option('after', {
              type: 'string',
              array: true,
              default: [],
              describe: 'depends on these: id, title or drop file',
            })
            .option('assignee', { type: 'string', describe: 'for this teammate alone' })
            .option('needs', {
              type: 'string',
              array: true,
              describe: 'what its owner must be able to do (default write)',
            })
            .option('skill', { type: 'string', array: true, describe: 'skills that fit it' })
            .option('tag', { type: 'string', array: true, describe: 'tags, for people' })
            .option('path', { type: 'string', array: true, describe: 'globs of what it may touch' })
            .option('priority', { type: 'number', describe: 'higher first (default 0)' })
            .option('verify', { type: 'string', describe: 'a command that must pass before it counts as done' })
            .option('accept', {
              type: 'string',
              array: true,
              describe: 'a command that must fail before the work and pass with it',
            })
            .option('review', {
              type: 'boolean',
              describe: 'a teammate who is not its author reads the work before its merge',
            })
            .option('id', { type: 'string', describe: 'an id of your own' })
            .option('json', { type: 'boolean', default: false, describe: 'print the task as JSON' })
            .example('$0 task add "Parse dates" --after 3', 'begins once 3 is completed')
            .example('$0 task add "Write the report" -d - < report.md', 'the description from stdin'),
        handler(cli, args => add(cli, args)),
      )
      .command(
        'list',
        'List tasks',
        z =>
          z
            .option('status', { choices: taskStatuses, describe: 'only these' })
            .option('all', { type: 'boolean', default: false, describe: 'cancelled ones too' })
            .option('json', { type: 'boolean', default: false, describe: 'print the tasks as JSON' })
            .example('$0 task list --status failed', 'what went wrong'),
        handler(cli, args => list(cli, args)),
      )
      .command(
        'show <id>',
        'Everything about one task',
        z =>
          z
            .positional('id', { type: 'string', demandOption: true, describe: 'of the task, as in team task list' })
            .option('json', { type: 'boolean', default: false, describe: 'print the task and its requests as JSON' })
            .example('$0 task show 7', 'its text, its state and why, what was decided about it'),
        handler(cli, args => show(cli, args)),
      )
      .command(
        'graph',
        'The tasks as a tree of what waits for what',
        z =>
          z
            .option('json', { type: 'boolean', default: false, describe: 'nodes and edges' })
            .example('$0 task graph', 'what has to be completed before what'),
        handler(cli, args => graph(cli, args)),
      )
      .command(
        'retry <id..>',
        'Make failed or cancelled tasks pending again',
        z =>
          z
            .positional('id', { type: 'string', array: true, demandOption: true, describe: 'of one task or several' })
            .example('$0 task retry 7', 'under the same id, on the same branch'),
        handler(cli, args => retry(cli, args)),
      )
      .command(
        'cancel <id..>',
        'Cancel tasks; what was done on them is kept',
        z =>
          z
            .positional('id', { type: 'string', array: true, demandOption: true, describe: 'of one task or several' })
            .option('reason', { type: 'string', describe: 'why; kept with the task' })
            .example('$0 task cancel 7 8 --reason "not needed"', 'two at once'),
        handler(cli, args => cancel(cli, args)),
      )
      .example('$0 task add "Parse dates"', 'add one')
      .example('$0 task list', 'what there is')
      .demandCommand(1, 'say what to do with tasks: add, list, show, graph, retry or cancel'),
  )

interface Add extends Globals {
  title: string
  description: string | undefined
  file: string | undefined
  after: string[]
  assignee: string | undefined
  needs: string[] | undefined
  skill: string[] | undefined
  tag: string[] | undefined
  path: string[] | undefined
  priority: number | undefined
  verify: string | undefined
  accept: string[] | undefined
  review: boolean | undefined
  id: string | undefined
  json: boolean
}

const add = async (cli: Cli, args: Add): Promise<Result<number>> => {
  if (args.description !== undefined && args.file !== undefined)
    return fail('usage', 'give the description by --description or by --file, not by both')
  const text = await readText(cli, { text: args.description, file: args.file })
  if (!text.ok) return text
  if (args.priority !== undefined && !Number.isInteger(args.priority))
    return fail('usage', '--priority takes a whole number')
  const given = <K extends keyof TaskDrop>(key: K, value: TaskDrop[K] | undefined) =>
    value === undefined ? {} : { [key]: value }
  return withTeam(cli, args, 'change', async team => {
    const added = await team.call('task.add', {
      tasks: [
        {
          title: args.title,
          ...given('description', text.value),
          ...given('id', args.id),
          ...(args.after.length > 0 ? { dependsOn: args.after } : {}),
          ...given('assignee', args.assignee),
          ...given('needs', args.needs),
          ...given('skills', args.skill),
          ...given('tags', args.tag),
          ...given('paths', args.path),
          ...given('priority', args.priority),
          ...given('verify', args.verify),
          ...given('accept', args.accept),
          ...given('review', args.review),
        },
      ],
    })
    // It is the one task that was given here: its place in the list of them says nothing.
    if (!added.ok)
      return { ok: false, fault: { ...added.fault, message: added.fault.message.replaceAll('tasks.0.', '') } }
    if (args.json) cli.out.json(added.value.tasks[0])
    else
      for (const made of added.value.tasks)
        cli.out.say(`task ${made.id}: ${made.shown}${made.why === null ? '' : `, ${made.why}`}`)
    team.later('The task is written down; the next team up gives it out.')
    return ok(0)
  })
}

const list = (cli: Cli, args: Globals & { status: TaskStatus | undefined; all: boolean; json: boolean }) =>
  withTeam(cli, args, 'read', async team => {
    const listed = await team.call('task.list', {
      all: args.all,
      ...(args.status === undefined ? {} : { status: args.status }),
    })
    if (!listed.ok) return listed
    const { tasks } = listed.value
    if (args.json) cli.out.json(tasks)
    else if (tasks.length === 0) cli.out.say('no tasks')
    else cli.out.say(renderTasks(tasks, cli.paint))
    return ok(0)
  })

const show = (cli: Cli, args: Globals & { id: string; json: boolean }) =>
  withTeam(cli, args, 'read', async team => {
    const got = await team.call('task.get', { id: args.id })
    if (!got.ok) return got
    if (args.json) cli.out.json(got.value)
    else {
      const { task, requests, saved, used } = got.value
      cli.out.say(renderTask(task, requests, saved, used, cli.clock.wall(), cli.paint))
    }
    return ok(0)
  })

const graph = (cli: Cli, args: Globals & { json: boolean }) =>
  withTeam(cli, args, 'read', async team => {
    const listed = await team.call('task.list', { all: true })
    if (!listed.ok) return listed
    const { tasks } = listed.value
    if (args.json)
      cli.out.json({
        nodes: tasks.map(({ id, title, shown, owner }) => ({ id, title, shown, owner })),
        edges: tasks.flatMap(each => each.dependsOn.map(from => ({ from, to: each.id }))),
      })
    else cli.out.say(tasks.length === 0 ? 'no tasks' : renderGraph(tasks, cli.paint))
    return ok(0)
  })

const retry = (cli: Cli, args: Globals & { id: string[] }) =>
  withTeam(cli, args, 'change', async team => {
    const done = await forEach(cli, args, async id => {
      const result = await team.call('task.retry', { id })
      return result.ok ? ok(`task ${id}: pending again`) : result
    })
    team.later('The next team up gives it out.')
    return done
  })

const cancel = (cli: Cli, args: Globals & { id: string[]; reason: string | undefined }) =>
  withTeam(cli, args, 'change', team =>
    forEach(cli, args, async id => {
      const reason = args.reason === undefined ? {} : { reason: args.reason }
      const result = await team.call('task.cancel', { id, ...reason })
      return result.ok ? ok(`task ${id}: cancelled`) : result
    }),
  )
