import { resolve } from 'node:path'
import { fail, ok } from '../lib/result.ts'
import type { SavedShown } from '../protocol/work.ts'
import type { Cli, Commands, Globals } from './cli.ts'
import { handler } from './cli.ts'
import { coloured } from './render/patch.ts'
import { savedTable, savedWords } from './render/saved.ts'
import { harmless, oneLine } from './render/text.ts'
import { withTeam } from './with-team.ts'

const id = {
  type: 'string',
  demandOption: true,
  describe: 'the beginning of its commit, as team rescue list has it; or its ref',
} as const

/** `team rescue`: what was saved before a branch or a work tree moved on without it, and the way back to it. */
export const rescue = (commands: Commands, cli: Cli): Commands =>
  commands.command(
    'rescue',
    'Work that was saved aside, and the way back to it',
    y =>
      y
        .command(
          ['list', '$0'],
          'What was saved aside, newest first',
          z =>
            z
              .option('task', { type: 'string', describe: "only what was on this task's branch" })
              .option('json', { type: 'boolean', default: false, describe: 'the listing as JSON' })
              .example('$0 rescue list --task 7', 'what was saved of task 7'),
          handler(cli, args => list(cli, args)),
        )
        .command(
          'show <id>',
          'What is in it',
          z =>
            z
              .positional('id', id)
              .option('stat', { type: 'boolean', default: false, describe: 'only which files, and how much' })
              .option('json', { type: 'boolean', default: false, describe: 'what it is, summary and patch as JSON' })
              .example('$0 rescue show 1a2b3c4d5e', 'its files and the patch'),
          handler(cli, args => show(cli, args)),
        )
        .command(
          'restore <id>',
          'Put it into a new branch of your repository, or into a new folder',
          z =>
            z
              .positional('id', id)
              .option('branch', { type: 'string', describe: 'the branch to make (default rescue/<id>)' })
              .option('to', { type: 'string', describe: 'a folder for its files instead: a new one, or an empty one' })
              .option('json', { type: 'boolean', default: false, describe: 'where it is now, as JSON' })
              .example('$0 rescue restore 1a2b3c4d5e', 'as branch rescue/1a2b3c4d5e')
              .example('$0 rescue restore 1a2b3c4d5e --to ../saved', 'as files'),
          handler(cli, args => restore(cli, args)),
        )
        .example('$0 rescue list', 'what was saved aside, newest first'),
    () => undefined,
  )

const list = (cli: Cli, args: Globals & { task: string | undefined; json: boolean }) =>
  withTeam(cli, args, 'read', async team => {
    const listed = await team.call('rescue.list', args.task === undefined ? {} : { task: args.task })
    if (!listed.ok) return listed
    const { saved } = listed.value
    if (args.json) cli.out.json(saved)
    else if (saved.length === 0) cli.out.say('nothing was saved aside')
    else {
      cli.out.say(savedTable(saved, cli.clock.wall()))
      cli.out.note('team rescue restore <id> makes a branch of it; --to <folder> writes its files')
    }
    return ok(0)
  })

// A change: what lies in a clone alone is taken into the hub for it.
const show = (cli: Cli, args: Globals & { id: string; stat: boolean; json: boolean }) =>
  withTeam(cli, args, 'change', async team => {
    const got = await team.call('rescue.show', { id: args.id })
    if (!got.ok) return got
    const { saved, stat, patch } = got.value
    if (args.json) cli.out.json(got.value)
    else {
      cli.out.say(cli.paint.bold(oneLine(headline(saved), 200)))
      cli.out.say(stat === '' ? 'nothing is changed in it' : harmless(stat))
      if (!args.stat && patch !== '') cli.out.say(`\n${coloured(harmless(patch), cli.paint)}`)
    }
    return ok(0)
  })

const headline = (saved: SavedShown): string => `${saved.id} ${savedWords(saved)} (${saved.ref})`

const restore = (
  cli: Cli,
  args: Globals & { id: string; branch: string | undefined; to: string | undefined; json: boolean },
) => {
  if (args.branch !== undefined && args.to !== undefined)
    return Promise.resolve(fail('usage', 'give a branch by --branch or a folder by --to, not both'))
  return withTeam(cli, args, 'change', async team => {
    const restored = await team.call('rescue.restore', {
      id: args.id,
      ...(args.branch === undefined ? {} : { branch: args.branch }),
      ...(args.to === undefined ? {} : { folder: resolve(cli.cwd, args.to) }),
    })
    if (!restored.ok) return restored
    const { commit, branch, folder } = restored.value
    if (args.json) cli.out.json(restored.value)
    else if (folder !== null) cli.out.say(`its files are in ${folder}`)
    else cli.out.say(`branch ${branch} of your repository stands at ${commit.slice(0, 10)}: git switch ${branch}`)
    return ok(0)
  })
}
