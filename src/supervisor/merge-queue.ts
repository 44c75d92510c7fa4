import { reach } from '../lib/points.ts'
import type { Fault } from '../lib/result.ts'
import type { RequestOf } from '../protocol/request.ts'
import type { Task } from '../protocol/task.ts'
import { conflictText } from './conflict.ts'
import { verifyCommands } from './core.ts'
import { blame, isWanted, type Link, messageOf, recordOf, unprovable, wasSpared } from './merge-facts.ts'
import { inOrder } from './merge-order.ts'
import { settleMerge } from './merge-settle.ts'
import { touchedWrongly } from './touched.ts'
import { checkTree, type Gate } from './tree.ts'
import { redText, type Verdicts } from './verdict.ts'
import { type Check, howEnded, nothingToRun, type Ran } from './verify.ts'

/** An approved merge that waits for its turn, or is in it. */
interface Member {
  readonly task: string
  readonly request: string
  /** Its place among all that were approved; given when it is first looked at. */
  ordinal: number | null
  /** Something went wrong while it was merged together with others: now by itself. */
  isAlone: boolean
  /** How often it was begun anew since the trunk moved, or git was killed. */
  tries: number
  /** What its `accept` came to where the branch started; null before that was run. */
  base: readonly Ran[] | null
  readonly end: () => void
  readonly fail: (error: unknown) => void
}

const mostTries = 5

/**
 * Approved merges on their way to the trunk, in the order of `merge-order.ts`. What waits is taken up to `limits.mergeBatch` at
 * once: merged onto each other in a chain, whose last tree is verified once, by the commands of all.
 *
 *   approved ──▶ chain ──▶ verify the last tree ──green──▶ move the trunk to the last commit ──▶ all completed
 *                  │          └──red──▶ look for the first red link by halves: what is before it is merged, it is sent back
 *                  │                    (on the trunk alone: was that red before?), what is behind it waits for the next round
 *                  └──conflict with the trunk──▶ sent back; with one before it in the chain alone ──▶ waits for the next round
 *
 * A trunk that moved meanwhile, or a member that was cancelled: all of it once more. Nothing of this is kept but the effects:
 * each member's intent is on record before the trunk moves, and what a crash left is told by its head being on the trunk.
 */
export class MergeQueue {
  readonly #gate: Gate
  readonly #verdicts: Verdicts
  /** One at a time among everything that moves the trunk or reads it to build on it. */
  readonly #inLane: <T>(act: () => Promise<T>) => Promise<T>
  #waiting: Member[] = []
  #isGoing = false
  #ordinal = 0
  /** What a command came to on a commit of the trunk alone. */
  readonly #onTrunk = new Map<string, Check>()
  /** The trunk's commit that is known to be red: what mends it is found one by one. */
  #redTrunk: string | null = null

  constructor(o: { gate: Gate; verdicts: Verdicts; inLane: <T>(act: () => Promise<T>) => Promise<T> }) {
    this.#gate = o.gate
    this.#verdicts = o.verdicts
    this.#inLane = o.inLane
  }

  /** Resolves when this approved merge has come to its end, or the daemon is ending. */
  merge(task: string, request: string): Promise<void> {
    return new Promise((end, fail) => {
      this.#waiting.push({ task, request, ordinal: null, isAlone: false, tries: 0, base: null, end, fail })
      this.#go()
    })
  }

  #go(): void {
    if (this.#isGoing || this.#waiting.length === 0) return
    this.#isGoing = true
    void this.#inLane(() => this.#round()).then(() => {
      this.#isGoing = false
      this.#go()
    })
  }

  /** Takes a batch as far as it comes. Whoever is not back among those that wait has come to its end. */
  async #round(): Promise<void> {
    const { hub } = this.#gate.core
    let batch: readonly Member[] = this.#waiting
    try {
      // Those that were approved at the same time have come in after this.
      const trunk = hub ? await hub.trunk() : ''
      batch = this.#take(trunk)
      if (!this.#gate.signal.aborted) await this.#lead(batch)
      for (const member of batch) if (!this.#waiting.includes(member)) member.end()
    } catch (error) {
      this.#waiting = this.#waiting.filter(member => !batch.includes(member))
      // Whom of them it comes from is told by each being alone.
      for (const member of batch)
        if (batch.length > 1) this.#waiting.push(Object.assign(member, { isAlone: true }))
        else member.fail(error)
    }
  }

  #take(trunk: string): Member[] {
    const { tasks, requests, config } = this.#gate.core
    const decided = (member: Member) => requests.get(member.request)?.value.decidedAt ?? ''
    const fresh = this.#waiting.filter(member => member.ordinal === null)
    // After a start these are all that were approved before it, in the order of the tasks.
    for (const member of fresh.sort((a, b) => (decided(a) < decided(b) ? -1 : decided(a) > decided(b) ? 1 : 0)))
      member.ordinal = ++this.#ordinal
    const line = inOrder(
      this.#waiting.map(member => ({
        member,
        ordinal: member.ordinal ?? 0,
        priority: tasks.get(member.task)?.value.priority ?? 0,
      })),
    ).map(({ member }) => member)
    const stop = line.findIndex(member => member.isAlone)
    const most = trunk === this.#redTrunk || stop === 0 ? 1 : config.limits.mergeBatch
    const batch = line.slice(0, stop > 0 ? Math.min(stop, most) : most)
    this.#waiting = this.#waiting.filter(member => !batch.includes(member))
    return batch
  }

  async #lead(batch: readonly Member[]): Promise<void> {
    const { signal } = this.#gate
    const chain = await this.#chain(batch)
    if (signal.aborted || chain.length === 0) return
    const links = chain.map(({ link }) => link)
    const again = (from = 0) => {
      for (const { member } of chain.slice(from)) this.#waiting.push(member)
    }
    const seen = new Map<number, Check>()
    const upTo = async (n: number) => {
      const check = seen.get(n) ?? (await this.#verify(links.slice(0, n)))
      seen.set(n, check)
      return check
    }
    let green = 0
    let red = links.length + 1
    // The whole chain first; then, were it red, by halves: `green` links are green (none: the trunk as it is), `red` are not.
    for (let n = links.length; red - green > 1; n = (green + red) >> 1) {
      const check = await upTo(n)
      if (signal.aborted) return
      if (check.couldNotRun && links.length > 1 && (await this.#runsNothing(links))) return this.#stuck(links, check)
      if (check.ok) green = n
      else red = n
    }
    const proof = seen.get(green) ?? nothingToRun
    if (green > 0 && !(await this.#land(chain.slice(0, green), proof))) return again(green)
    const refused = links[red - 1]
    const why = seen.get(red)
    if (refused === undefined || why === undefined) return
    if (this.#isWanted(refused)) await this.#refuse(refused, links.slice(0, red), why, green > 0 ? proof : null)
    else this.#verdicts.drop(refused.request.id, refused.task.id)
    again(red)
  }

  /** Merges one onto the other, without a ref; those that cannot be merged come to their end here. */
  async #chain(batch: readonly Member[]): Promise<{ member: Member; link: Link }[]> {
    const { core, signal } = this.#gate
    const { hub, requests, tasks } = core
    const chain: { member: Member; link: Link }[] = []
    if (!hub) return chain
    const trunk = await hub.trunk()
    let tip = trunk
    for (const member of batch) {
      const request = requests.get(member.request)?.value
      const task = tasks.get(member.task)?.value
      if (signal.aborted || !task || request?.type !== 'merge_request') continue
      if (!this.#isWanted({ task, request })) {
        await settleMerge(core, request)
        continue
      }
      const { head } = request.data
      let preview = await hub.preview(head, tip)
      if (preview.ok && !preview.value.clean && tip !== trunk) {
        preview = await hub.preview(head, trunk)
        if (preview.ok && preview.value.clean) {
          // It conflicts with one before it, which is not on the trunk yet and may never be.
          this.#waiting.push(member)
          continue
        }
      }
      if (!preview.ok) {
        if (preview.fault.code === 'refused') this.#return(task, request, 'your branch cannot be merged', preview.fault)
        else this.#faulted(member, request, preview.fault)
        continue
      }
      if (!preview.value.clean) {
        const text = await conflictText(core, task, { head, ...preview.value })
        if (this.#isWanted({ task, request })) {
          requests.effect(request.id, 'done', 'returned', `conflict in ${preview.value.files.join(', ')}`)
          this.#verdicts.sendBack(task.id, text, { takeIn: preview.value.onto })
        } else this.#verdicts.drop(request.id, task.id)
        continue
      }
      if (preview.value.upToDate && (request.effect?.step === 'intent' || request.effect?.outcome === 'ok')) {
        const taken = await hub.mergeOf(head, request.id)
        if (!taken.ok) this.#faulted(member, request, taken.fault)
        else if (taken.value !== null) this.#verdicts.takenIn(task, request, taken.value)
        if (!taken.ok || taken.value !== null) continue
      }
      const touched = await touchedWrongly(core, task, head, chain)
      if (!touched.ok) this.#faulted(member, request, touched.fault)
      else if (touched.value.isBehind) this.#waiting.push(member)
      else if (touched.value.strays.length > 0)
        if (this.#isWanted({ task, request })) this.#verdicts.strayed(task.id, request.id, touched.value.strays, trunk)
        else this.#verdicts.drop(request.id, task.id)
      if (!touched.ok || touched.value.isBehind || touched.value.strays.length > 0) continue
      member.base ??= await this.#isRedBefore(member, task, request)
      if (member.base === null) continue
      const { tree, upToDate } = preview.value
      const made = upToDate
        ? await hub.mergeOf(head)
        : await hub.commitMerge({ head, tree, onto: tip, message: messageOf(task, request) })
      if (!made.ok) {
        this.#faulted(member, request, made.fault)
        continue
      }
      const commit = typeof made.value === 'string' ? made.value : (made.value?.commit ?? tip)
      const commands = [...verifyCommands(core, task), ...task.accept]
      chain.push({ member, link: { task, request, onto: tip, tree, commit, upToDate, commands, base: member.base } })
      if (!upToDate) tip = commit
    }
    return chain
  }

  /** Its `accept` where the branch started: all must be red there, or they prove nothing. null: the merge has come to its end by that. */
  async #isRedBefore(member: Member, task: Task, request: RequestOf<'merge_request'>): Promise<readonly Ran[] | null> {
    const { hub, requests } = this.#gate.core
    if (!hub || task.accept.length === 0) return []
    // The trunk at the claim: a later one may hold this very work.
    const fork = await hub.forkPoint(request.data.head, request.data.trunk)
    if (!fork.ok) {
      this.#faulted(member, request, fork.fault)
      return null
    }
    const from = fork.value ?? request.data.trunk
    const result = await checkTree(this.#gate, { task: task.id, base: from }, from, task.accept, { isThorough: true })
    if (this.#gate.signal.aborted) return null
    if (result.couldNotRun) {
      requests.effect(request.id, 'done', 'unknown', `accept could not run: ${result.tail}`)
      this.#verdicts.stuck([task], result)
      return null
    }
    const green = result.runs.find(({ ok }) => ok)
    if (green === undefined) return result.runs
    const reason = `accept \`${green.command}\` passes already where the branch started (${from.slice(0, 12)}), so it proves nothing: it must fail there and pass on the merged result. Put right what the task accepts, then team task retry ${task.id}`
    requests.effect(request.id, 'done', 'failed', reason, { merge: unprovable(task, request, result.runs) })
    this.#verdicts.unprovable(task.id, reason)
    return null
  }

  /** Verifies the last tree of a chain by the commands of all its links. */
  #verify(links: readonly Link[]): Promise<Check> {
    const last = links.at(-1)
    if (last === undefined) return Promise.resolve(nothingToRun)
    const tasks = links.map(({ task }) => task.id)
    const commands = [...new Set(links.flatMap(link => link.commands))]
    return checkTree(this.#gate, { task: last.task.id, ...(tasks.length > 1 ? { tasks } : {}) }, last.tree, commands)
  }

  /** Not even a command that does nothing, on the trunk alone: then none of these is at fault for it. */
  async #runsNothing([first]: readonly Link[]): Promise<boolean> {
    if (first === undefined) return false
    return (await checkTree(this.#gate, { trunk: first.onto }, first.onto, ['true'])).couldNotRun
  }

  /** Nothing could be run, so nothing is known of any of them: each ends with that. */
  async #stuck(links: readonly Link[], check: Check): Promise<void> {
    const { core, signal } = this.#gate
    if (signal.aborted) return
    const wanted = links.filter(link => this.#isWanted(link))
    for (const { request } of wanted)
      core.requests.effect(request.id, 'done', 'unknown', `verify could not run: ${check.tail}`)
    this.#verdicts.stuck(
      wanted.map(({ task }) => task),
      check,
    )
    for (const link of links) if (!wanted.includes(link)) await settleMerge(core, link.request)
  }

  /** Moves the trunk over these links, which are verified. False where it did not: they wait again, or have come to their end. */
  async #land(chain: readonly { member: Member; link: Link }[], check: Check): Promise<boolean> {
    const { hub, requests, store } = this.#gate.core
    const links = chain.map(({ link }) => link)
    const [first, last] = [links[0], links.at(-1)]
    if (!hub || !first || !last) return false
    const again = () => {
      for (const { member, link } of chain)
        if (this.#isWanted(link)) this.#waiting.push(member)
        else this.#verdicts.drop(link.request.id, link.task.id)
      return false
    }
    if (!links.every(link => this.#isWanted(link))) return again()
    const merges = links.map(link => recordOf(link, { isMerged: true, batch: links, check }))
    const intents = links.flatMap(({ request: { id } }, i) =>
      requests.get(id)?.value.effect === null
        ? [requests.effect(id, 'intent', undefined, undefined, { merge: merges[i] })]
        : [],
    )
    for (const intent of intents) if (intent.ok) await intent.value.durable
    if (!links.every(link => this.#isWanted(link))) return again()
    const brought = links.filter(({ upToDate }) => !upToDate)
    const to = brought.at(-1)?.commit ?? first.onto
    const heads = brought.map(({ request }) => request.data.head)
    reach('effect.act')
    const moved = heads.length === 0 ? null : await hub.moveTrunk({ from: first.onto, to, heads })
    reach('effect.acted')
    if (moved !== null && !moved.ok) {
      for (const { member, link } of chain)
        if (moved.fault.code === 'conflict') {
          if (++member.tries < mostTries) this.#waiting.push(member)
          else this.#verdicts.abandon(link.request, 'the trunk kept moving')
        } else if (chain.length > 1) {
          member.isAlone = true
          this.#waiting.push(member)
        } else this.#faulted(member, link.request, moved.fault)
      return false
    }
    if (moved !== null) {
      const tasks = brought.map(({ task }) => task.id)
      const which = tasks.length === 1 ? { task: tasks[0] } : { tasks }
      store.note({ event: 'trunk.moved', by: 'supervisor', info: { ...which, from: first.onto, to } })
    }
    if (check.runs.length > 0) this.#verdicts.trunkRed(null)
    for (const [i, link] of links.entries()) {
      const others = links.flatMap(({ task: { id } }) => (id === link.task.id ? [] : [id]))
      const together = others.length === 0 ? '' : `, with task ${others.join(', ')}`
      const detail = link.upToDate ? 'the trunk holds it already' : `trunk at ${to.slice(0, 12)}${together}`
      requests.effect(link.request.id, 'done', 'ok', detail, { merge: merges[i] })
      this.#verdicts.merged(link.task, link.request.id, {
        commit: link.commit,
        trunk: to,
        isVerified: link.commands.length > 0,
      })
    }
    await store.flushed()
    return true
  }

  /** The last of `links` made the result red. `before`: the check of those before it, which were green. */
  async #refuse(link: Link, links: readonly Link[], red: Check, before: Check | null): Promise<void> {
    const { core, signal } = this.#gate
    const { requests } = core
    const { task, request } = link
    if (red.couldNotRun) return this.#stuck([link], red)
    const isOwn = red.command !== core.config.verify && link.commands.includes(red.command)
    const trunk = task.accept.includes(red.command)
      ? undefined
      : await this.#aloneOnTrunk(link.onto, red.command, before)
    if (signal.aborted) return
    const redBefore = trunk === undefined || trunk.couldNotRun ? undefined : !trunk.ok
    // Once for each commit of the trunk: whoever claims the same again before it is mended is not led in a circle for ever.
    const spared = redBefore === true && !isOwn && !wasSpared(core, task.id, link.onto)
    // Its own check is there to be turned green: that it is red without the work says nothing against the trunk.
    const blamed = isOwn && redBefore ? undefined : redBefore
    const merge = recordOf(link, { isMerged: false, batch: links, check: red, trunk, redBefore: blamed, spared })
    if (redBefore && !isOwn && trunk) {
      this.#redTrunk = link.onto
      this.#verdicts.trunkRed({ trunk: link.onto, result: trunk })
    }
    const how =
      redBefore === undefined || isOwn ? '' : redBefore ? '; red on the trunk before' : '; green on the trunk alone'
    const others = links.slice(0, -1).map(({ task: { id } }) => id)
    requests.effect(request.id, 'done', 'returned', `${red.command} ${howEnded(red)}${how}`, { merge })
    this.#verdicts.sendBack(
      task.id,
      [redText(red), blame(link, red, trunk, { isOwn, spared, others })].filter(Boolean).join('\n\n'),
      { takeIn: link.onto, spared },
    )
  }

  /** What a red command comes to without the work. Kept, since others may ask of the same commit. */
  async #aloneOnTrunk(trunk: string, command: string, before: Check | null): Promise<Check> {
    const ran = before?.runs.find(each => each.command === command)
    if (ran !== undefined) return { ...ran, couldNotRun: false, runs: [ran] }
    const key = `${trunk} ${command}`
    const known = this.#onTrunk.get(key)
    if (known !== undefined) return known
    const check = await checkTree(this.#gate, { trunk }, trunk, [command])
    if (check.couldNotRun || this.#gate.signal.aborted) return check
    if (this.#onTrunk.size >= 32) this.#onTrunk.clear()
    this.#onTrunk.set(key, check)
    return check
  }

  #isWanted({ task, request }: Pick<Link, 'task' | 'request'>): boolean {
    const now = this.#gate.core.tasks.get(task.id)?.value
    return now !== undefined && isWanted(now, request)
  }

  #return(task: Task, request: RequestOf<'merge_request'>, what: string, { message, hint }: Fault): void {
    this.#gate.core.requests.effect(request.id, 'done', 'returned', message)
    this.#verdicts.sendBack(task.id, `${what}: ${message}${hint === undefined ? '' : ` (${hint})`}`)
  }

  /** A git that was killed is asked once more. */
  #faulted(member: Member, request: RequestOf<'merge_request'>, fault: Fault): void {
    if ((fault.code === 'io' || fault.code === 'held') && member.tries++ === 0) this.#waiting.push(member)
    else this.#verdicts.abandon(request, fault.message)
  }
}
