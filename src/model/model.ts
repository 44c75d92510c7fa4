import type { ModelConfig } from '../protocol/config.ts'
import type { Learned } from '../protocol/quirks.ts'

/** A function the model may call. `parameters` is a JSON Schema object without `$schema`, flat, never a top-level union. */
export interface ToolSchema {
  readonly name: string
  readonly description: string
  readonly parameters: Readonly<Record<string, unknown>>
}

export interface ToolCall {
  readonly id: string
  readonly name: string
  /** As the model sent it, made valid: a JSON string of an object; `null` when it could not be read as one. */
  readonly arguments: string | null
  /** Why `arguments` is null, for the model to read. */
  readonly fault?: string
  /** What its endpoint wants back with it, as it came. */
  readonly extra?: Readonly<Record<string, unknown>>
}

export type ChatMessage =
  | { readonly role: 'user'; readonly text: string }
  | {
      readonly role: 'assistant'
      readonly text: string
      readonly calls: readonly ToolCall[]
      readonly reasoning?: string
      /** Who said it, by label: its thoughts and what its calls carry are for that model alone. */
      readonly model?: string
    }
  | { readonly role: 'tool'; readonly callId: string; readonly name: string; readonly text: string }

/** Tokens, as the endpoint reported them; null where it reported nothing plausible. */
export interface Usage {
  readonly input: number
  readonly cachedInput: number
  readonly output: number
}

export type ModelFaultKind =
  | 'rate_limit'
  | 'overloaded'
  | 'network'
  | 'timeout'
  | 'malformed'
  | 'auth'
  | 'quota'
  | 'overflow'
  | 'bad_request'
  /** Answers came, and none could be used (empty, filtered, cut off), after asking again. */
  | 'unusable'
  | 'aborted'

export interface ModelFault {
  readonly kind: ModelFaultKind
  readonly message: string
  readonly status?: number | undefined
  /** How long the endpoint asked to wait, in milliseconds. */
  readonly retryAfterMs?: number | undefined
}

/** Kinds that the same request may survive when sent again. */
export const isRetryable = (kind: ModelFaultKind): boolean =>
  kind === 'rate_limit' || kind === 'overloaded' || kind === 'network' || kind === 'timeout' || kind === 'malformed'

export interface Turn {
  readonly text: string
  readonly reasoning?: string
  readonly calls: readonly ToolCall[]
  /** Decided by what actually came, never by `finish_reason` alone: `fault` says more when it is `error`. */
  readonly stop: 'end' | 'calls' | 'length' | 'filtered' | 'empty' | 'error'
  readonly fault?: ModelFault
  readonly usage: Usage | null
  /** Who answered, by label, where it is another than the one that was asked. */
  readonly model?: string
}

export interface TurnRequest {
  /** The stable prefix: one system message. */
  readonly system: string
  readonly messages: readonly ChatMessage[]
  /** Sorted by name; may be empty, then no tools are sent at all. */
  readonly tools: readonly ToolSchema[]
  readonly signal: AbortSignal
  /** Called with each piece of text as it streams in. */
  readonly onText?: (piece: string) => void
  /** Called whenever anything of the answer came: text, thoughts, a part of a call. */
  readonly onContent?: () => void
}

/** A model. `turn` never throws: failure is a stop reason. It does not retry; the loop does. */
export interface Model {
  readonly label: string
  turn(request: TurnRequest): Promise<Turn>
  /** A turn begins: the moment at which another model than the last may be called. */
  turnBegins?(): void
  /** Little of the budget is left (or enough again): the cheaper one, where there is one, takes the calls from now on. */
  spare?(on: boolean): void
  /** The one that was asked under this label failed for good with this fault: true when another takes the call. */
  takeOver?(fault: ModelFault, asked: string): boolean
}

export interface ModelOptions {
  /** How it is called, where another one is called as its provider and name say. */
  readonly label?: string | undefined
  readonly config: ModelConfig
  /** The key's value; undefined for endpoints that need none. */
  readonly apiKey: string | undefined
  /** No content for so long ends the call. */
  readonly idleMs: number
  /** What the endpoint taught before. */
  readonly learned?: Learned
  /** What it taught now: told when the request that follows it was taken. `why`: the refusal, in its words. */
  readonly onLearned?: (learned: Learned, why: string) => void
}
