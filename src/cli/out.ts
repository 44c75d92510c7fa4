import { closeSync, constants, fstatSync, openSync, writeSync } from 'node:fs'
import { isatty } from 'node:tty'
import { jsonText } from './render/text.ts'

/** Where a command says what it has to say: stdout for what was asked, stderr for everything else. */
export interface Out {
  /** Text to stdout as it is; a missing last newline is added. */
  say(text: string): void
  /** A piece of text to stdout, as it is. */
  piece(text: string): void
  /** One value as JSON to stdout, for programs. */
  json(value: unknown): void
  /** To stderr. */
  note(text: string): void
  /** Aborted when nobody reads stdout any more, so that a following command ends. */
  readonly closed: AbortSignal
}

/**
 * Out over the process's own streams. A reader that went away (`| head`) is no fault: what follows is dropped, and a command
 * that follows something ends by `closed`. So it does where a file cannot take what was asked for (a full disk): that is said
 * when the process ends, which it does with 1 then.
 */
export const processOut = (): Out => {
  const gone = new AbortController()
  let unwritten: Error | undefined
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (!isGone(error) && error.syscall !== 'write') throw error
      if (stream !== process.stdout) return
      if (!isGone(error)) unwritten ??= error
      gone.abort()
    })
  process.once('exit', code => {
    if (unwritten === undefined) return
    process.stderr.write(`team: the output could not be written: ${unwritten.message}\n`)
    if (code === 0) process.exitCode = 1
  })
  const lined = (text: string) => (text.endsWith('\n') ? text : `${text}\n`)
  return {
    say: text => void process.stdout.write(lined(text)),
    piece: text => void process.stdout.write(text),
    json: value => void process.stdout.write(`${jsonText(value, 2)}\n`),
    note: text => void process.stderr.write(lined(text)),
    closed: gone.signal,
  }
}

/** Colours: on a terminal that has them. NO_COLOR and --no-color take them away, FORCE_COLOR gives them to a pipe too. */
export const wantsColours = (
  env: Readonly<Record<string, string | undefined>>,
  isTerminal: boolean,
  argv: readonly string[],
): boolean => {
  if (env.NO_COLOR || argv.includes('--no-color')) return false
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== '0' && env.FORCE_COLOR !== 'false'
  return isTerminal && env.TERM !== 'dumb'
}

/** Errors that mean: the reader or the terminal is not there any more. */
export const isGone = (error: unknown): boolean =>
  ['EPIPE', 'EIO', 'ECONNRESET', 'ERR_STREAM_DESTROYED', 'EBADF'].includes((error as NodeJS.ErrnoException).code ?? '')

/** More than this waiting for a reader that does not read is not kept. */
const patience = 256 * 1024

/**
 * Lines for a screen that must never hold up or end the daemon behind them (C11): a reader that went away is forgotten, one
 * that does not read (a full pipe, a stopped terminal) or a file on a full disk loses lines, which is said when it goes on.
 */
export const screen = (out: Out): ((line: string) => void) => {
  let lost = 0
  const write = process.stdout.isTTY ? terminal() : isPipe(1) ? pipe(out) : file
  return line => {
    if (out.closed.aborted) return
    const text = lost === 0 ? `${line}\n` : `… ${lost} lines left out: they could not be written\n${line}\n`
    if (write(text)) lost = 0
    else lost++
  }
}

const pipe = (out: Out) => (text: string) => {
  if (process.stdout.writableLength > patience) return false
  out.say(text)
  return true
}

const isPipe = (fd: number): boolean => {
  const stat = fstatSync(fd)
  return stat.isFIFO() || stat.isSocket()
}

/** A file is written to synchronously by node as well, and its stream never again once that failed. */
const file = (text: string): boolean => {
  try {
    const bytes = Buffer.from(text)
    for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall !== 'write') throw error
    return false
  }
}

/** A terminal is written to synchronously by node, and a stopped one would stop the daemon: it is opened anew, not blocking. */
const terminal = (): ((text: string) => boolean) => {
  let fd: number
  try {
    fd = openSync('/proc/self/fd/1', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  } catch {
    return text => process.stdout.write(text) // No /proc, or a terminal of another user: node's own way remains.
  }
  let gone = false
  return text => {
    if (gone) return true
    try {
      writeSync(fd, text)
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return false
      gone = true
      leaveTerminal()
      return true
    }
  }
}

/**
 * Puts /dev/null in the place of a terminal that is gone. Node puts a terminal's settings back when it exits, and aborts when
 * that fails, as it does once the terminal was closed.
 */
export const leaveTerminal = (): void => {
  for (const fd of [0, 1, 2]) {
    if (!isatty(fd) && !isHungUp(fd)) continue
    closeSync(fd)
    // The lowest free number is the one just freed, unless a thread was quicker: then that place is filled as well.
    const taken = openSync('/dev/null', 'r+')
    if (taken !== fd) closeSync(taken)
  }
}

/** A terminal that was hung up is not even told as one any more: every write to it fails. */
const isHungUp = (fd: number): boolean => {
  try {
    writeSync(fd, '')
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EIO'
  }
}
