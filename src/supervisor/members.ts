import { relative } from 'node:path'
import { setAside } from '../git/damage.ts'
import { iso } from '../lib/clock.ts'
import { fail, ok, type Result } from '../lib/result.ts'
import { makeTurns } from '../lib/turns.ts'
import type { Member } from '../protocol/config.ts'
import type { ThreadData, Told } from '../protocol/thread.ts'
import { prepareHome } from '../sandbox/home.ts'
import type { Probe, Shell } from '../sandbox/shell.ts'
import type { View } from '../sandbox/view.ts'
import { type Core, cloneLoss, clonePath, leadInbox } from './core.ts'
import { releaseInHand } from './in-hand.ts'
import { humanInbox } from './mail.ts'
import type { Notices } from './notices.ts'
import { setUp } from './setup.ts'
import type { Threads } from './threads.ts'

export interface MembersOptions {
  readonly core: Core
  readonly threads: Threads
  readonly notices: Notices
  readonly probe: Probe
  readonly dataPaths: readonly string[]
  readonly secrets: readonly string[]
  readonly shellFor: (view: View) => Shell
  readonly signal: AbortSignal
  /** A bug, or the journal cannot be written. */
  readonly onFailure: (error: unknown) => void
}

type Turns = ReturnType<typeof makeTurns>

/** So many runs of `setup` at the same time: one that is slow or hangs is nobody's delay, and a large team is no stampede. */
const setUpsAtOnce = 4

/**
 * Brings every teammate up: its home, its clone, its thread. Clones are made one after another, and each teammate begins as
 * soon as its own is set up. What cannot be made ready is this teammate's trouble alone: it is shown as failed with the
 * reason, and the others work. Once the signal is aborted nothing is begun any more. Resolves when nothing of it goes on.
 * `alone` runs each start, unless the teammate is being brought up already.
 */
export const startMembers = async (
  o: MembersOptions,
  alone: (name: string, act: () => Promise<void>) => Promise<void>,
): Promise<void> => {
  const clones = makeTurns()
  const setUps = makeTurns(setUpsAtOnce)
  await Promise.all(
    o.core.members.map(member => alone(member.name, () => startMember(o, member, clones, setUps)).catch(o.onFailure)),
  )
}

/** The same for one, at once where no turns are given. */
export const startMember = async (
  o: MembersOptions,
  member: Member,
  clones: Turns = act => act(),
  setUps: Turns = act => act(),
): Promise<void> => {
  const { store, roster } = o.core
  const { name } = member
  const placed = await clones(async () => (o.signal.aborted ? null : makePlace(o, name)))
  if (placed?.ok) await setUpOnce(o, name, placed.value, setUps)
  if (placed === null || o.signal.aborted) return
  // As it is by now: it may have been changed while it was set up.
  const data = threadData(o, roster.find(name) ?? member)
  if (!placed.ok) {
    const { message, hint } = placed.fault
    const why = hint === undefined ? message : `${message} (${hint})`
    o.threads.park(data, 'failed', why)
    // Not on record: the next start tries again.
    roster.setReady(name, false)
    const unready = `${name} could not be made ready: ${why}`
    o.core.leases.ended(name, unready)
    store.note({ event: 'teammate.failed', by: 'supervisor', info: { name, why } })
    o.notices.notReady(name, unready)
    await releaseInHand(o.core, name, unready)
    return
  }
  roster.setReady(name, true)
  const standing = store.teammates.get(name)?.value
  if (standing && standing.standing !== 'live') o.threads.park(data, standing.standing, standing.reason)
  else o.threads.start(data)
}

/** What a teammate's thread is started with, as the team is now. */
export const threadData = (o: MembersOptions, member: Member): ThreadData => {
  const { root, workspace, mode, config } = o.core
  return {
    name: member.name,
    root,
    workspace,
    mode,
    member,
    limits: config.limits,
    sandbox: { mode: config.sandbox, ...o.probe },
    dataPaths: o.dataPaths,
    told: told(o.core, member),
    secrets: o.secrets,
  }
}

/** What a teammate is told of itself and the team. */
export const told = ({ roster, config }: Core, { role, systemPrompt }: Member): Told => ({
  role,
  systemPrompt,
  teammates: roster.members
    .filter(other => !roster.isLeaving(other.name))
    .map(other => ({ name: other.name, role: other.role })),
  lead: config.lead ?? 'user',
})

/** Starts a stopped or failed teammate again, once what kept it from being ready is mended. */
export const restartMember = async (o: MembersOptions, name: string): Promise<Result<{ name: string }>> => {
  const { store } = o.core
  const state = o.threads.status(name)?.state
  if (state === undefined) return fail('refused', `${name} is being made ready: it starts by itself`)
  if (state === 'stopped' || state === 'failed') {
    const placed = await makePlace(o, name)
    if (placed.ok) await setUpOnce(o, name, placed.value)
    if (o.signal.aborted) return fail('closed', 'the daemon is stopping')
    if (!placed.ok) return placed
  }
  const started = o.threads.restart(name)
  if (!started.ok) return started
  o.core.roster.setReady(name, true)
  setStanding(o.core, name, 'live', null)
  store.note({ event: 'teammate.revived', by: 'human', info: { name } })
  await store.flushed()
  return ok({ name })
}

/**
 * Makes the clone of a teammate that runs again, and sets it up, where it was deleted under it, or is damaged; said once to
 * whoever leads, and on the status screen until its next task. Throws where that cannot be done.
 */
export const restoreClone = async (o: MembersOptions, name: string): Promise<void> => {
  const loss = cloneLoss(o.core, name)
  if (loss === null) return o.notices.problem(`clone/lost/${name}`, null)
  const placed = await makePlace(o, name, loss)
  if (!placed.ok) {
    const { message, hint } = placed.fault
    const why = hint === undefined ? message : `${message} (${hint})`
    throw new Error(`the clone of ${name} ${loss} and cannot be made again: ${why}; then team task retry`)
  }
  await setUpOnce(o, name, placed.value)
}

/**
 * A teammate's home and clone, and whether the clone is new. Safe to repeat: what stands there is adopted. `loss`: what became
 * of the clone that it had in this run; what stands in its place is set aside then, whatever it is.
 */
const makePlace = async (
  o: MembersOptions,
  name: string,
  loss: string | null = null,
): Promise<Result<'new' | 'adopted'>> => {
  const { root, workspace, mode, store, hub } = o.core
  const home = prepareHome({ name, root, workspace, mode, dataPaths: o.dataPaths })
  if (!home.ok) return home
  for (const text of home.value.warnings)
    store.note({ event: 'config.warning', by: 'supervisor', info: { name, text } })
  if (!hub) return ok('adopted')
  const path = clonePath(o.core, name)
  const moved = loss === null ? null : setAside(path)
  const clone = await hub.ensureClone(name, path)
  if (!clone.ok) return clone
  const { made, mended, warnings } = clone.value
  const aside = moved ?? clone.value.aside
  if (loss !== null || aside !== null) tellLoss(o, name, loss ?? 'is damaged', aside)
  if (made) store.note({ event: 'clone.made', by: 'supervisor', info: { name } })
  for (const text of mended) store.note({ event: 'clone.mended', by: 'supervisor', info: { name, text } })
  // The same of every clone, so it stands there once.
  for (const text of warnings) o.notices.problem(`clone/${text}`, text)
  return ok(made ? 'new' : 'adopted')
}

const tellLoss = ({ core, notices }: MembersOptions, name: string, loss: string, aside: string | null): void => {
  const held = 'what it held and had not been claimed or released'
  const where = aside === null ? `${held} is lost` : `${held} lies in ${relative(core.root, aside)}`
  const text = `the clone of ${name} (team/${name}/repo) ${loss} and is made again: ${where}`
  notices.problem(`clone/lost/${name}`, text)
  notices.tell(leadInbox(core), `msg_clone_${name}_${core.store.seq}`, text)
}

/** `copy` and `setup`, once in a clone; again where they never went well there, or are other ones by now. */
const setUpOnce = async (
  o: MembersOptions,
  name: string,
  clone: 'new' | 'adopted',
  inTurn: Turns = act => act(),
): Promise<void> => {
  const { store, config, hub } = o.core
  const { setup, copy } = config
  const mark = `setup/${name}`
  const done = JSON.stringify([setup ?? null, copy])
  const rec = store.marks.get(mark)
  if (!hub || (setup === undefined && copy.length === 0)) return
  if (clone === 'adopted' && rec?.value.done === done) return
  const set = await inTurn(async () => {
    if (o.signal.aborted) return null
    if (setup !== undefined) store.note({ event: 'setup.started', by: 'supervisor', info: { name, command: setup } })
    return setUp(o.core, clonePath(o.core, name), o.shellFor, o.signal)
  })
  // Not begun or cut short, by the end of the daemon: the next start does it again.
  if (set === null || o.signal.aborted) return
  if (!set.ok) tellNoSetUp(o, name, set.fault.message)
  else o.notices.problem(mark, null)
  const missing = set.ok ? set.value.missing.join(', ') : ''
  o.notices.problem('copy', missing === '' ? null : `copy in config.json names ${missing}, which the workspace has not`)
  const why = { event: 'clone.ready' as const, by: 'supervisor', info: { name } }
  if (!set.ok) return
  if (rec) store.marks.update(mark, rec.rev, { done }, why)
  else store.marks.create(mark, { done }, why)
}

/**
 * A set-up that failed keeps nobody from working: many tasks need none. Its teammate and the human are told what it said, the
 * human once where it says the same of several clones; a check whose set-up fails proves nothing, so nothing is merged for that.
 */
const tellNoSetUp = ({ core, notices }: MembersOptions, name: string, why: string): void => {
  const { seq } = core.store
  const isNews = !notices.problems().some(text => text.includes(why))
  notices.problem(
    `setup/${name}`,
    `${name}: ${why}; it works on without. Mend it, then team down and team up (another setup in config.json is run at once)`,
  )
  notices.tell(
    name,
    `msg_setup_${name}_${seq}`,
    `Setting up your clone failed, so what it makes may be missing: ${why}\nTake on what needs none of it; fail a task that does, with this reason.`,
  )
  if (isNews)
    notices.tell(
      humanInbox,
      `msg_setup_${name}_${seq}`,
      `Setting up the clone of ${name} failed; it works on without. Mend it, then team down and team up (another setup in config.json is run at once). ${why}`,
    )
}

/** Puts on record that a teammate is to run, was stopped, or was given up. */
export const setStanding = (
  { store, clock }: Core,
  name: string,
  standing: 'live' | 'stopped' | 'failed',
  reason: string | null,
): void => {
  const rec = store.teammates.get(name)
  const value = { name, standing, reason, at: iso(clock.wall()) }
  const why = { event: 'teammate.state' as const, by: 'supervisor', info: { name, standing } }
  if (rec) store.teammates.update(name, rec.rev, value, why)
  else store.teammates.create(name, value, why)
}
