import { join } from 'node:path'

export { type LoadedConfig, loadConfig } from './config-file.ts'
export { findRoot, type Search } from './find-root.ts'

/** Where everything of a team root lies: the one place that spells these paths. */
export const layout = (root: string) => {
  const run = join(root, '.team')
  const team = join(root, 'team')
  const tasks = join(root, '.tasks')
  const messages = join(root, '.messages')
  return {
    root,
    config: join(root, 'config.json'),
    team,
    agents: join(team, 'AGENTS.md'),
    skills: join(team, 'skills'),
    home: (name: string) => join(team, name),
    tasks,
    taskArchive: join(tasks, 'archive'),
    taskDropped: join(tasks, 'dropped'),
    messages,
    inbox: (name: string) => join(messages, `${name}.inbox.jsonl`),
    requests: join(messages, 'requests'),
    messageArchive: join(messages, 'archive'),
    deadLetters: join(messages, 'dead-letter.jsonl'),
    transcripts: join(root, '.transcripts'),
    run,
    journal: join(run, 'journal'),
    holder: join(run, 'holder.json'),
    models: join(run, 'models.json'),
    sessions: join(run, 'sessions'),
    session: (name: string) => join(run, 'sessions', `${name}.jsonl`),
    hub: join(run, 'hub.git'),
    logs: join(run, 'logs'),
    daemonLog: join(run, 'logs', 'daemon.jsonl'),
    upLog: join(run, 'logs', 'up.log'),
    verify: join(run, 'verify'),
    caches: join(run, 'cache'),
  } as const
}
export type Layout = ReturnType<typeof layout>
