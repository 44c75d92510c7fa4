import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { bindGit, type Environment } from '../../git/run.ts'
import { ok, type Result } from '../../lib/result.ts'
import { repositoryFiles, verifyCommand } from './files.ts'
import { demoTeam } from './tasks.ts'

export interface DemoFolders {
  /** The repository that the team works on. */
  readonly workspace: string
  /** The team root beside it. */
  readonly root: string
}

/** Makes the demo's repository, one commit on `main`, and a team root beside it, both new folders below `dir`. */
export const makeDemo = async (dir: string, env: Environment): Promise<Result<DemoFolders>> => {
  const workspace = join(dir, 'tally')
  const root = join(dir, 'tally-team')
  write(workspace, repositoryFiles)
  write(root, { 'config.json': `${JSON.stringify(config, null, 2)}\n`, 'team/AGENTS.md': rules })
  const git = bindGit({ cwd: workspace, env })
  for (const args of [
    ['init', '-q', '-b', 'main'],
    ['add', '-A'],
    ['commit', '-q', '-m', 'A small library that sums up CSV files'],
    // So that `team status` finds the team from inside the repository.
    ['config', '--local', 'team.root', root],
  ]) {
    const done = await git(args)
    if (!done.ok) return done
  }
  return ok({ workspace, root })
}

const write = (folder: string, files: Readonly<Record<string, string>>): void => {
  for (const [path, text] of Object.entries(files)) {
    const file = join(folder, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
}

const config = {
  workspace: '../tally',
  mode: 'git',
  model: { provider: 'runbook' },
  teammates: demoTeam,
  approvals: { merge_request: 'human' },
  verify: verifyCommand,
  // Where bubblewrap does not work, only these commands run.
  sandbox: 'prefer',
  permissions: {
    allow: ['node *', 'git add *', 'git commit *', 'git merge *', 'mkdir *'],
    // Asked about each time, sandbox or not.
    ask: ['chmod'],
  },
}

const rules = `# Rules for everyone

- Work in repo/ on the task in hand, nothing else. Run the tests before you say that it is done.
- Tell the teammates whose work yours touches.
`
