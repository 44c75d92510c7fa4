import { mkdirSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { pino } from 'pino'
import { type Clock, iso } from '../lib/clock.ts'
import { makeFolderIn } from '../lib/files.ts'
import type { JournalEntry } from '../protocol/event.ts'

/** A log file larger than this is put aside as `<file>.1` at start, over the one before. */
const keepBytes = 32 * 1024 * 1024

export interface DaemonLog {
  /** One line for what the journal took in. */
  entry(entry: JournalEntry): void
  /** One line for what is no matter of the journal: the daemon's own troubles. */
  error(text: string, cause?: unknown): void
  close(): void
}

/**
 * The daemon's log: JSON lines by pino in `file` of `root`, in the words of protocol/event.ts, secrets replaced by `redact`. What
 * one flush of the journal brought is one write, synchronous, so that the last line before a crash is there.
 */
export const openLog = (root: string, file: string, redact: (text: string) => string, clock: Clock): DaemonLog => {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  try {
    if (statSync(file).size > keepBytes) renameSync(file, `${file}.1`)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
  }
  const destination = pino.destination({ dest: file, sync: true, mode: 0o600 })
  // A full disk must not end the daemon by way of its log; the journal, which must be written, tells of it.
  destination.on('error', () => undefined)
  let lines = ''
  const flush = () => {
    const text = lines
    lines = ''
    if (text === '') return
    try {
      if (!statSync(file, { throwIfNoEntry: false })) again()
    } catch (error) {
      destination.emit('error', error)
    }
    destination.write(redact(text))
  }
  /** Its file, or its folder, was removed: what comes now is not for nobody. Where that cannot be mended the journal has it all. */
  const again = () => {
    makeFolderIn(root, dirname(file))
    destination.reopen()
  }
  const scrubbed = {
    write: (line: string) => {
      if (lines === '') queueMicrotask(flush)
      lines += line
    },
  }
  const log = pino({ base: null, timestamp: () => `,"time":"${iso(clock.wall())}"` }, scrubbed)
  return {
    entry({ seq, event, by, info }) {
      const line = { seq, event, by, ...(info ? { info } : {}) }
      if (event === 'warning' || event.endsWith('.failed') || event.endsWith('.died')) log.warn(line)
      else log.info(line)
    },
    error: (text, cause) =>
      log.error(
        {
          event: 'warning',
          by: 'supervisor',
          err: cause instanceof Error ? { message: cause.message, stack: cause.stack } : cause,
        },
        text,
      ),
    close: () => {
      flush()
      destination.end()
    },
  }
}
