import { statSync } from 'node:fs'
import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { buildPrefix, type PrefixParts, subagentPrefix } from '../agent/prefix.ts'
import { readPrefixParts } from '../agent/prefix-files.ts'
import { Session } from '../agent/session.ts'
import { clock, delay } from '../lib/clock.ts'
import { arm, killVariable } from '../lib/points.ts'
import { makeRedactor } from '../lib/redact.ts'
import { unwrap } from '../lib/result.ts'
import { Limits, type Member } from '../protocol/config.ts'
import { beatMs, type FromThread, type ThreadData, type ToThread } from '../protocol/thread.ts'
import { relinkSkills } from '../sandbox/home.ts'
import { teamMarker } from '../sandbox/leftover.ts'
import { makeShell } from '../sandbox/make-shell.ts'
import { liveView } from '../sandbox/view.ts'
import { pickTools } from '../tools/index.ts'
import { compactionOf } from './compacting.ts'
import { Life } from './life.ts'
import { askFor, type LifeOptions } from './life-options.ts'
import { openModels } from './models.ts'
import { watchOutside } from './outside.ts'
import { portCall } from './port.ts'
import { SkillNews } from './skill-news.ts'

/** How long what a command left running may take to end. */
const stopMs = 2000

/** A file that need not be there. */

/**
 * The entry of a teammate's thread: puts its parts together, lives, says goodbye. What goes wrong here is thrown, so that
 * the thread dies loudly and is started again by the supervisor.
 */
const main = async (): Promise<void> => {
  arm(process.env[killVariable], 'thread')
  const port = parentPort
  if (!port) throw new Error('this is the entry of a worker thread')
  // Written by the supervisor of this same process and version.
  const data = workerData as ThreadData
  const member = data.member as Member
  const limits = Limits.parse(data.limits)
  const { name, root, workspace, mode, dataPaths } = data
  const post = (message: FromThread): void => port.postMessage(message)

  const { call, answer, close } = portCall(post)
  const warn = (text: string): void => post({ t: 'event', event: 'warning', info: { text } })
  const tools = unwrap(pickTools(member.tools))
  const sessionFile = join(root, '.team', 'sessions', `${name}.jsonl`)
  const since = statSync(sessionFile, { throwIfNoEntry: false })?.mtimeMs ?? null
  const session = unwrap(
    Session.open(sessionFile, clock, {
      tell: warn,
      rotateBytes: limits.journalBytes,
    }),
  )
  const view = liveView({
    name,
    root,
    workspace,
    mode,
    dataPaths,
    hub: mode === 'git' ? join(root, '.team', 'hub.git') : null,
  })
  const { mode: sandbox, ...probe } = data.sandbox
  const bare = makeShell({
    view,
    probe,
    mode: sandbox,
    permissions: member.permissions,
    secrets: data.secrets,
    env: Object.fromEntries(['PATH', 'HOME'].flatMap(key => (process.env[key] ? [[key, process.env[key]]] : []))),
    // The supervisor finds by this mark what a dead thread's commands left running.
    marker: teamMarker(root, name),
    onStart: ({ pid, command }) =>
      post({ t: 'event', event: 'command.started', info: { name, pid, command: command.slice(0, 200) } }),
    onEnd: ({ left }) => post({ t: 'event', event: 'command.ended', info: { name, left } }),
  })
  const shell = watchOutside(bare, {
    root,
    workspace,
    mode,
    env: { PATH: process.env.PATH, HOME: process.env.HOME },
    onChange: (changes, command) =>
      post({ t: 'event', event: 'outside.changed', info: { name, changes, command: command.slice(0, 200) } }),
  })
  const models = openModels({ root, member, env: process.env, limits, session, clock, call, post })
  const { model, gate } = models

  const warned = new Set<string>()
  const warnOnce = (text: string): void => {
    if (!warned.has(text)) post({ t: 'event', event: 'config.warning', info: { name, text } })
    warned.add(text)
  }
  const relink = (): void => {
    const linked = relinkSkills(root, name)
    if (!linked.ok) warnOnce(linked.fault.message)
    view.look()
  }
  const skillNews = new SkillNews({ teamDir: join(root, 'team'), name, since, onChange: relink })
  let { told } = data
  const parts = (): PrefixParts => {
    relink()
    const { role, systemPrompt, teammates, lead } = told
    const { parts, warnings } = readPrefixParts(root, { name, role, systemPrompt }, { teammates, lead, mode })
    for (const text of warnings) warnOnce(text)
    return parts
  }

  const made: LifeOptions = {
    member: models.member,
    root,
    limits,
    session,
    call,
    post,
    model,
    tools,
    shell,
    view,
    gate,
    clock,
    prefix: () => buildPrefix(parts()),
    subagentPrefix: () => subagentPrefix(parts()),
    skillNews: () => skillNews.look(),
    redact: makeRedactor(data.secrets),
  }
  const compaction = compactionOf(made)
  const life = new Life({ ...made, compaction })
  port.on('message', (message: ToThread) => {
    if (message.t === 'res') answer(message)
    else if (message.t === 'team') told = message
    else if (message.t === 'rules') shell.tighten(message.permissions)
    else if (message.t === 'compact') post({ t: 'compact', id: message.id, no: askFor(compaction, message.focus) })
    else life.hear(message)
  })

  const living = new AbortController()
  const beat = async (): Promise<void> => {
    while (!living.signal.aborted) {
      post({ t: 'beat', ...life.pulse })
      await delay(beatMs(limits), living.signal).catch(() => undefined)
    }
  }
  const beating = beat()
  const reason = await life.run()
  await shell.stop(stopMs)
  living.abort()
  await beating
  close()
  models.end()
  session.close()
  post({ t: 'bye', reason })
  port.close()
}

await main()
