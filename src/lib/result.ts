/** Expected failure is a value: what went wrong, coded, for a program; with a remedy, for a person. */
export interface Fault {
  readonly code: FaultCode
  /** What was wrong and where, one line. */
  readonly message: string
  /** What to do next, one line; left out where there is nothing to add. */
  readonly hint?: string | undefined
  readonly cause?: unknown
}

/**
 * The closed set of faults that cross a boundary (port, socket, exit code).
 * usage 2 · config 3 · unknown 4 · refused 5 · offline 6 · everything else 1.
 */
export type FaultCode =
  | 'usage'
  | 'config'
  | 'unknown'
  | 'refused'
  | 'offline'
  | 'conflict'
  | 'invalid'
  | 'held'
  | 'io'
  | 'closed'
  | 'internal'

export const faultCodes = [
  'usage',
  'config',
  'unknown',
  'refused',
  'offline',
  'conflict',
  'invalid',
  'held',
  'io',
  'closed',
  'internal',
] as const satisfies readonly FaultCode[]

/** The exit code a command ends with when a fault of this code reaches it (docs/exit-codes.md). */
export const exitCode = (code: FaultCode): number =>
  ({
    usage: 2,
    config: 3,
    unknown: 4,
    refused: 5,
    offline: 6,
    conflict: 5,
    invalid: 1,
    held: 1,
    io: 1,
    closed: 6,
    internal: 1,
  })[code]

export type Result<T, F = Fault> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: F }

export const ok = <T>(value: T): { ok: true; value: T } => ({ ok: true, value })
export const fail = (
  code: FaultCode,
  message: string,
  hint?: string,
  cause?: unknown,
): { ok: false; fault: Fault } => ({
  ok: false,
  fault: { code, message, ...(hint === undefined ? {} : { hint }), ...(cause === undefined ? {} : { cause }) },
})

/** A fault as an exception, for the few places where a value cannot be returned (constructors, callbacks of libraries). */
export class FaultError extends Error {
  readonly fault: Fault
  constructor(fault: Fault) {
    super(fault.message, { cause: fault.cause })
    this.name = 'FaultError'
    this.fault = fault
  }
}

/** The value, or a throw of the fault: for callers that have nothing better to do with it. */
export const unwrap = <T>(result: Result<T>): T => {
  if (result.ok) return result.value
  throw new FaultError(result.fault)
}

/** Any thrown thing as a fault; a bug keeps its cause and is coded `internal`. */
export const asFault = (thrown: unknown): Fault => {
  if (thrown instanceof FaultError) return thrown.fault
  const error = thrown instanceof Error ? thrown : new Error(String(thrown))
  const errno = (error as NodeJS.ErrnoException).code
  return {
    code: errno !== undefined && /^E[A-Z]+$/.test(errno) ? 'io' : 'internal',
    message: error.message,
    cause: error,
  }
}
