import { asFault, ok } from '../lib/result.ts'
import { cut } from '../lib/text.ts'
import type { Member } from '../protocol/config.ts'
import { labelsOf } from '../protocol/fallbacks.ts'
import type { Request } from '../protocol/request.ts'
import type { Hello, QueuedLease, Status, TaskShown } from '../protocol/rpc.ts'
import type { TeammateState, Waiting } from '../protocol/teammate.ts'
import type { Probe } from '../sandbox/shell.ts'
import type { Core } from './core.ts'
import { heldUp } from './held-up.ts'
import { humanInbox } from './mail.ts'
import { shownOf } from './shown.ts'
import { stranded } from './stranded.ts'
import type { ThreadStatus } from './threads.ts'

/** A screen's worth of everything. `live` is null when no daemon runs: then teammates are shown as stopped. */
export const makeStatus = async (
  core: Core,
  o: {
    hello: Hello | null
    asOf: string | null
    probe: Probe | null
    live: ((name: string) => ThreadStatus | undefined) | null
    problems: readonly string[]
    pendingChanges?: readonly string[]
    archived: number
  },
): Promise<Status> => {
  const { store, tasks, config, members, hub, mail, requests } = core
  const list: TaskShown[] = []
  for (const [id, { value }] of store.tasks.list()) {
    const task = shownOf(core, id)
    const bar = task.shown === 'ready' ? core.leases.bar(value, null) : null
    list.push(bar === null ? task : { ...task, why: [task.why, `waits for ${bar}`].filter(Boolean).join('; ') })
  }
  // A hub that is broken takes nothing off the screen but where it stands, and is told there.
  const seen = hub ? await hub.standing().then(ok, error => ({ ok: false as const, fault: asFault(error) })) : ok(null)
  const standing = seen.ok ? seen.value : null
  const leases = core.leases.shown()
  const kind = o.probe?.kind ?? 'unknown'
  const defended = config.sandbox !== 'off' && kind === 'bwrap'
  return {
    holder: o.hello,
    asOf: o.asOf,
    root: core.root,
    workspace: core.workspace,
    mode: core.mode,
    trunk: standing && { name: config.trunk, commit: standing.trunk, ahead: standing.ahead },
    base: hub && standing && { name: hub.baseName, commit: standing.base },
    sandbox: { mode: config.sandbox, kind, defended, detail: o.probe?.detail ?? '' },
    teammates: members.map(member => {
      const live = o.live?.(member.name)
      const task = tasks.inHand(member.name)?.value.id ?? null
      const standing = store.teammates.get(member.name)?.value
      const state = live?.state ?? notRunning(standing?.standing, o.live !== null)
      const waiting = live?.waiting
        ? onWhom(live.waiting, leases.queued)
        : live === undefined
          ? readied(core, state)
          : null
      const {
        context,
        model: answering,
        ...tokens
      } = live?.usage ?? { input: 0, cachedInput: 0, output: 0, calls: 0, context: null, model: undefined }
      return {
        name: member.name,
        role: member.role,
        state,
        since: live?.since ?? standing?.at ?? '',
        task,
        waiting,
        background: live?.commands ?? [],
        unread: mail.unread(member.name),
        restarts: live?.restarts ?? 0,
        stall: live?.stall && live.stall.task === task ? live.stall.text : null,
        heldUp: live ? heldUp(member.name, { ...live, waiting }, task) : null,
        reason: live?.reason ?? standing?.reason ?? null,
        model: named(member, answering),
        tokens,
        context,
      }
    }),
    tasks: list,
    archived: o.archived,
    requests: requests.waiting().map(brief),
    budget: core.budget.shown(),
    used: core.budget.usedFor(),
    // What a daemon gave went down with it.
    leases: o.live ? leases : { held: [], queued: leases.queued.map(lease => ({ ...lease, behind: [] })) },
    problems: [
      ...(seen.ok ? [] : [seen.fault.message]),
      ...o.problems,
      ...derivedProblems(core, list, o.probe, o.live),
    ],
    pendingChanges: o.pendingChanges ?? [],
    deadLetters: unseenLetters(core),
  }
}

/** Of a long text a screen shows the beginning; `team requests <id>` has the whole. */
const brief = (request: Request): Request =>
  request.body.length > longestBody
    ? { ...request, body: `${cut(request.body, longestBody)}\n[cut; team requests ${request.id} shows the whole]` }
    : request
const longestBody = 4096

/** Who waits for a lease waits for whoever is before it, not for the supervisor that grants it. */
const onWhom = (waiting: Waiting, queued: readonly QueuedLease[]): Waiting => {
  const lease = queued.find(({ id }) => id === waiting.request)
  if (!lease || lease.behind.length === 0) return waiting
  const also = waiting.also?.length ?? 0
  const what = `${lease.id}${also === 0 ? '' : ` and ${also} more`}: lease on ${lease.kind} ${lease.what.join(', ')}`
  const others = waiting.whom.split(', ').filter(whom => whom !== 'supervisor')
  return { ...waiting, what, whom: [...new Set([...lease.behind.map(({ who }) => who), ...others])].join(', ') }
}

/** One that has no thread: a daemon that has none for it yet is still making its place ready. */
const notRunning = (standing: 'live' | 'stopped' | 'failed' | undefined, daemon: boolean): TeammateState => {
  if (standing === 'failed') return 'failed'
  return daemon && standing !== 'stopped' ? 'starting' : 'stopped'
}

/** What its place waits for while it is made ready. */
const readied = ({ config, hub }: Core, state: TeammateState): Waiting | null =>
  state === 'starting' && hub && config.setup !== undefined
    ? { what: `its clone and setup \`${config.setup}\``, whom: 'supervisor' }
    : null

const derivedProblems = (
  core: Core,
  list: readonly TaskShown[],
  probe: Probe | null,
  live: ((name: string) => ThreadStatus | undefined) | null,
): string[] => {
  const problems: string[] = []
  for (const task of list) {
    if (task.status === 'failed')
      problems.push(
        `task ${task.id} "${task.title}" failed: ${withRemedy(firstLine(task.error), `team task retry ${task.id}`)}`,
      )
    if (task.status === 'pending') {
      const nobody = task.shown === 'ready' ? stranded(core, task) : null
      if (nobody !== null) problems.push(nobody)
      const dead = core.tasks.graph.deadBlockers(task)
      if (dead.length > 0)
        problems.push(
          `task ${task.id} is blocked by ${dead.map(other => `${other.id}, which ${other.status === 'failed' ? 'failed' : 'was cancelled'}`).join(' and ')}`,
        )
    }
  }
  if (live)
    for (const member of core.members) {
      const status = live(member.name)
      const rests = core.budget.rests(member.name)
      if (rests !== null) problems.push(`${member.name} calls no model: ${rests}`)
      if (status?.state === 'failed')
        problems.push(`${member.name} was given up: ${firstLine(status.reason)} (team restart ${member.name})`)
      else if (status && status.restarts > 0)
        problems.push(`${member.name} died ${status.restarts} times: ${firstLine(status.reason)}`)
    }
  const letters = unseenLetters(core)
  if (letters > 0)
    problems.push(
      `${letters} ${letters === 1 ? 'line of an inbox was no message' : 'lines of inboxes were no messages'}: team inbox --dead tells why, with --ack it is off this list`,
    )
  if (probe && probe.kind === 'none')
    problems.push(
      core.config.sandbox === 'required'
        ? `no sandbox works here (${probe.detail}), so commands and verify are refused: ${probe.remedy ?? 'see team doctor'}`
        : `no sandbox works here (${probe.detail}): authority is not defended on this machine, same user, same files`,
    )
  else if (core.config.sandbox === 'off')
    problems.push('sandbox is off: authority is not defended on this machine, same user, same files')
  return problems
}

/** How many lines were no messages, of those that the human has not marked as seen. */
const unseenLetters = ({ store }: Core): number => store.deadLetters.last - store.deadLetters.cursor(humanInbox)

/** What is wrong and the command that helps, unless the reason names it already. */
const withRemedy = (reason: string, command: string): string =>
  reason.includes(command) ? reason : `${reason} (${command})`

const firstLine = (text: string | null): string => (text ?? 'no reason given').split('\n')[0] ?? ''

/** Who answered last, as long as it is one of its models by now; else its first. */
const named = ({ model, fallbacks }: Member, answering: string | undefined): string => {
  const isOne = answering !== undefined && labelsOf([model, ...fallbacks.map(each => each.model)]).includes(answering)
  return isOne ? answering : `${model.provider ?? 'auto'}${model.name === undefined ? '' : `/${model.name}`}`
}
