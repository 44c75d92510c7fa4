import { randomBytes } from 'node:crypto'
import { cut, nearest, wellFormed } from '../lib/text.ts'
import type { ChatMessage, Model, ModelFault, ToolCall, Turn } from '../model/model.ts'
import type { Compaction, Why } from './compact.ts'
import type { MailMark, NewEntry } from './entry.ts'
import type { Item } from './items.ts'
import { type Backoff, callModel, type Gate } from './retry.ts'
import type { Session } from './session.ts'
import { todoReminder } from './todo.ts'
import { tokens } from './tokens.ts'
import { error, type Tool, type ToolContext, type ToolResult } from './tool.ts'

/** What a boundary brings, and what happens once it stands in the journal. */
export interface Boundary {
  readonly items: readonly Item[]
  readonly mail?: MailMark
  /** Background commands whose end the items tell. */
  readonly ended?: readonly string[]
  taken?(): Promise<void>
}

export interface TurnOptions {
  readonly model: Model
  /** Sorted by name; the same all through a session. */
  readonly tools: readonly Tool[]
  readonly toolContext: ToolContext
  readonly session: Session
  /** Asked before each model call, always after all tool results. */
  boundary(): Promise<Boundary>
  /**
   * Asked before each boundary that a model call follows, with the tokens it will send about: why not, or null. A turn that is
   * stopped by it has not ended: the next one is the same, and still owes what it owed.
   */
  mayCall(input: number): Promise<string | null>
  /** Asked after all results of a round and after each boundary: a reason to end here, or null. */
  endsHere(): string | null
  /** Puts the conversation together where it gets too long; without it that only loses its oldest results. */
  readonly compaction?: Compaction
  readonly limits: { readonly rounds: number; readonly retries: number; readonly window: number | null }
  readonly backoff: Backoff
  readonly gate: Gate
  readonly signal: AbortSignal
  /** Ends a call of the model, and the waits between its tries, but no tool. The turn is then as broken off by `signal`. */
  readonly callSignal?: AbortSignal
  readonly on: {
    /** A call of the model (null) or of a tool begins. */
    begins(call: ToolCall | null): void
    /** Something of the model's answer came. */
    content(): void
    /** A piece of its text, as it came: of an answer that may still break off, and then comes anew. */
    text(text: string): void
    /** Waiting for the model, for so many milliseconds; null when that is over. */
    waiting(ms: number | null, fault: ModelFault | null): void
    /** An answer or a tool result is in the journal. */
    progress(): void
    usage(): void
    /** The turn ends with this text, which answers a message of a person: back when it is sent. The end is journaled after. */
    answers(message: string, text: string): Promise<void>
    called(turn: Turn): void
    tool(call: ToolCall, result: ToolResult): void
    /** A tool threw: a bug, told to the model as an error. */
    bug(name: string, thrown: unknown): void
  }
}

export type TurnEnd =
  | { readonly how: 'ended'; readonly text: string }
  /** `endsHere` said so. */
  | { readonly how: 'stopped'; readonly reason: string }
  | { readonly how: 'aborted' }
  | { readonly how: 'rounds' }
  | { readonly how: 'fault'; readonly fault: ModelFault }

/** No tool result is longer, whatever the tool let through. */
const longestResult = 200_000
const mostNudges = 2

const nudges: Readonly<Record<string, string>> = {
  empty: 'Your last answer was empty. Go on with what you were doing, or say in words that you are done.',
  filtered: 'Your last answer was withheld by a filter. Go on in another way, or fail the task with the reason.',
  length: 'Your last answer was cut off at the output limit. Go on from there, in smaller pieces.',
}

/**
 * One turn: calls the model and runs its tools until it calls none. Everything it says and every result is in the
 * journal before what follows; errors become results that the model can act on.
 *
 *   boundary ──▶ model ──calls──▶ tools, one by one ──▶ boundary …
 *                  ├──text──▶ ended
 *                  ├──nothing──▶ nudge (twice) ──▶ fault
 *                  └──fault──▶ retried where that can help ──▶ fault
 */
export const runTurn = async (o: TurnOptions): Promise<TurnEnd> => {
  const { session, signal } = o
  const { context } = session
  const schemas = o.tools.map(tool => tool.schema)
  const finish = (end: TurnEnd): TurnEnd => {
    // A turn that was broken off is still open: it goes on when the thread comes back.
    if (end.how !== 'aborted' && context.inTurn)
      session.append({ k: 'turn', turn: context.turn, step: 'end', how: end.how })
    return end
  }
  const hasTodo = o.tools.some(({ schema }) => schema.name === 'todo')
  let nudged = 0
  /** What was done so far for a request that was refused as too large. */
  let shrunk = 0
  const window = () => o.compaction?.window ?? o.limits.window
  const ask = async (messages: readonly ChatMessage[], retries: number, onText?: (text: string) => void) => {
    o.on.begins(null)
    const turn = await callModel({
      model: o.model,
      request: {
        system: context.system,
        messages,
        tools: schemas,
        signal: o.callSignal ?? signal,
        onContent: () => o.on.content(),
        ...(onText && { onText }),
      },
      retries,
      backoff: o.backoff,
      gate: o.gate,
      onWait: (ms, fault) => o.on.waiting(ms, fault),
    })
    o.on.called(turn)
    return turn
  }
  /** Puts the conversation together; why the budget does not let it, or null. */
  const compact = async (compaction: Compaction, why: Why): Promise<string | null> => {
    const size = context.estimate(schemas)
    const no = await o.mayCall(size)
    if (no !== null) return no
    await compaction.run(why, async messages => {
      const turn = await ask(messages, Math.min(1, o.limits.retries))
      return { turn, usage: usedBy(turn, size) }
    })
    o.on.usage()
    return null
  }
  for (let round = 0; ; round++) {
    if (signal.aborted) return finish({ how: 'aborted' })
    const early = o.endsHere()
    if (early !== null) return finish({ how: 'stopped', reason: early })
    const full = window()
    if (full !== null) drop(session, context.stale(full, schemas))
    const due = o.compaction?.due() ?? null
    if (o.compaction && due !== null) {
      const no = await compact(o.compaction, due)
      if (no !== null) return { how: 'stopped', reason: no }
      if (signal.aborted) return finish({ how: 'aborted' })
    }
    const no = await o.mayCall(context.estimate(schemas))
    if (no !== null) return { how: 'stopped', reason: no }
    if (!context.inTurn) {
      o.model.turnBegins?.()
      session.append({ k: 'turn', turn: context.turn + 1, step: 'start' })
    }
    const { items, mail, ended, taken } = await o.boundary()
    const reminder = round > 0 && hasTodo ? todoReminder(session) : null
    session.take(reminder === null ? items : [...items, { k: 'note', text: reminder }], mail, ended)
    await taken?.()
    const late = o.endsHere()
    if (late !== null) return finish({ how: 'stopped', reason: late })
    if (round >= o.limits.rounds) return finish({ how: 'rounds' })
    if (full !== null) drop(session, context.droppable(full * 0.9, schemas))

    const size = context.estimate(schemas)
    const turn = await ask(context.messages, o.limits.retries, text => o.on.text(text))
    if (turn.stop === 'error') {
      const fault = turn.fault ?? { kind: 'malformed' as const, message: 'the answer could not be read' }
      if (fault.kind === 'aborted' || signal.aborted) return finish({ how: 'aborted' })
      // The endpoint knows its window better than we do: make room, each way once, and ask again.
      if (fault.kind === 'overflow' && shrunk < 2) {
        o.compaction?.overflowed(size)
        if (shrunk++ === 0 && drop(session, context.droppable(size / 2, schemas))) continue
        shrunk = 2
        const no = o.compaction ? await compact(o.compaction, 'overflow') : null
        if (no !== null) return { how: 'stopped', reason: no }
        if (signal.aborted) return finish({ how: 'aborted' })
        if (context.estimate(schemas) < size) continue
      }
      return finish({ how: 'fault', fault })
    }
    shrunk = 0
    if (turn.calls.length === 0) {
      if (turn.text.trim() !== '') session.append(said(o, turn, [], size))
      else session.append({ k: 'blank', usage: usedBy(turn, size), sent: context.digest() })
      o.on.usage()
      if (turn.stop === 'end') {
        o.on.progress()
        if (context.asked !== null) await o.on.answers(context.asked, turn.text)
        return finish({ how: 'ended', text: turn.text })
      }
      if (nudged++ >= mostNudges)
        return finish({
          how: 'fault',
          fault: { kind: 'unusable', message: `the model gave no usable answer ${nudged} times (${turn.stop})` },
        })
      session.take([{ k: 'note', text: nudges[turn.stop] ?? nudges.empty ?? '' }])
      continue
    }
    nudged = 0
    const calls = turn.calls.map(call => ({ ...call, id: freshId(call.id, context.callIds) }))
    const groups = grouped(calls.map(call => readied(o, call)))
    // What begins stands in the journal with what came before it: one flush for both.
    session.append(said(o, turn, calls, size), ...starts(groups[0]))
    o.on.usage()
    o.on.progress()
    for (const [i, group] of groups.entries()) {
      const running = group.map(one => ({ call: one.call, ends: run(o, one) }))
      // In the order of the calls, whichever ends first.
      for (const [j, { call, ends }] of running.entries()) {
        const result = await ends
        session.append(
          {
            k: 'tool.result',
            id: call.id,
            name: call.name,
            text: result.text,
            isError: result.isError,
            ...(result.ended?.length ? { ended: [...result.ended] } : {}),
          },
          ...(signal.aborted || j + 1 < running.length ? [] : starts(groups[i + 1])),
        )
        o.on.tool(call, result)
        o.on.progress()
      }
    }
  }
}

const said = (o: TurnOptions, turn: Turn, calls: readonly ToolCall[], sent: number): NewEntry => ({
  k: 'assistant',
  text: turn.text,
  ...(turn.reasoning === undefined ? {} : { reasoning: turn.reasoning }),
  model: turn.model ?? o.model.label,
  calls: calls.map(call => ({ ...call })),
  usage: usedBy(turn, sent),
  sent: o.session.context.digest(),
})

/** As the endpoint counted it; where it did not, by the size of what was sent and of what came. */
export const usedBy = ({ usage, text, reasoning = '', calls }: Turn, sent: number) =>
  usage ?? {
    input: sent,
    cachedInput: 0,
    output: tokens(text) + tokens(reasoning) + calls.reduce((sum, call) => sum + tokens(call.arguments ?? ''), 0),
    estimated: true as const,
  }

const drop = (session: Session, ids: readonly string[]): boolean => {
  if (ids.length > 0) session.append({ k: 'dropped', ids: [...ids] })
  return ids.length > 0
}

/** Providers that number their calls anew in each answer must not make two calls of a session share an id. */
const freshId = (id: string, taken: ReadonlySet<string>): string =>
  taken.has(id) ? randomBytes(12).toString('base64').replace(/[+/=]/g, 'x').slice(0, 9) : id

/** A call that can be run, or why it cannot. */
type Ready = { readonly call: ToolCall } & (
  | { readonly tool: Tool; readonly args: unknown }
  | { readonly refusal: ToolResult }
)

const readied = (o: TurnOptions, call: ToolCall): Ready => {
  const tool = o.tools.find(each => each.schema.name === call.name)
  if (!tool) {
    const names = o.tools.map(each => each.schema.name)
    const near = nearest(call.name, names)
    const hint = near ? `, did you mean ${near}?` : '.'
    return { call, refusal: error(`there is no tool "${call.name}"${hint} Tools: ${names.join(', ')}`) }
  }
  if (call.arguments === null)
    return { call, refusal: error(`${call.name}: ${call.fault ?? 'the arguments could not be read'}.`) }
  return { call, tool, args: JSON.parse(call.arguments) }
}

/** Each call by itself, but those that may run side by side together. */
const grouped = (all: readonly Ready[]): Ready[][] => {
  const isBeside = (ready: Ready) => 'tool' in ready && ready.tool.sideBySide === true
  const groups: Ready[][] = []
  for (const ready of all) {
    const last = groups.at(-1)
    if (last?.every(isBeside) && isBeside(ready)) last.push(ready)
    else groups.push([ready])
  }
  return groups
}

const starts = (group: readonly Ready[] = []): NewEntry[] =>
  group.flatMap(ready => ('tool' in ready ? [{ k: 'tool.start', id: ready.call.id, name: ready.call.name }] : []))

/** Runs a call whose start stands in the journal. */
const run = async (o: TurnOptions, ready: Ready): Promise<ToolResult> => {
  if (o.signal.aborted) return error('not run: the turn was ended before it started.')
  if ('refusal' in ready) return ready.refusal
  const { call, tool, args } = ready
  o.on.begins(call)
  try {
    const result = await tool.run(args, o.toolContext)
    const text = cut(wellFormed(result.text), longestResult)
    return { ...result, text: text === '' ? '(no output)' : text }
  } catch (thrown) {
    o.on.bug(call.name, thrown)
    return error(
      `${call.name} failed inside: ${thrown instanceof Error ? thrown.message : String(thrown)}. Try another way.`,
    )
  }
}
