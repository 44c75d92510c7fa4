import { closeSync, constants, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { ulid } from 'ulid'
import { redactStream } from '../lib/redact.ts'
import { wellFormed } from '../lib/text.ts'

export interface OutputOptions {
  /** Bytes kept for the model, half of them from the end. */
  readonly keep: number
  /** Where the whole goes once it is longer than `keep`, or than `shortLines`; nowhere when left out. */
  readonly folder: string | undefined
  /** The file, made at once, that the whole goes to line by line, in place of one in `folder`. */
  readonly log?: string | undefined
  readonly redact: (text: string) => string
  /** Length of the longest secret. */
  readonly longest: number
}

/** What has more lines than these is kept as a file too, wherever it may fit. */
export const shortLines = 20

/**
 * What a command said: counted, redacted, made well-formed, the head and the tail kept, the whole written to a file as it
 * comes. Memory is bounded by `keep` and one piece.
 */
export class Output {
  readonly #options: OutputOptions
  readonly #decoder = new StringDecoder('utf8')
  readonly #stream: ReturnType<typeof redactStream>
  #head: Buffer[] = []
  #headBytes = 0
  #tail: Buffer[] = []
  #tailBytes = 0
  /** Redacted bytes in all. */
  #said = 0
  /** Ends of lines in all. */
  #lines = 0
  /** Does the last line so far have no end? */
  #isOpen = false
  #file: { path: string; fd: number } | null = null
  /** What was said since the last look, the end of it, where it is logged. */
  #fresh = ''
  /** Raw bytes in all, as the command wrote them. */
  bytes = 0

  constructor(options: OutputOptions) {
    this.#options = options
    this.#stream = redactStream(options.redact, options.longest, options.log !== undefined)
    if (options.log !== undefined) this.#open(options.log)
  }

  /** What was said since the last call in whole lines, of a log: at most the last `keep` of it. */
  fresh(): string {
    const text = this.#fresh
    this.#fresh = ''
    return text.length <= this.#options.keep
      ? text
      : `[… more was said before; it is in the log …]\n${text.slice(-this.#options.keep)}`
  }

  push(piece: Buffer): void {
    this.bytes += piece.length
    this.#take(this.#stream.push(this.#decoder.write(piece)))
  }

  /** Ends it. Call once, after the last `push`. */
  end(): { text: string; truncated: boolean; file: string | null } {
    this.#take(this.#stream.push(this.#decoder.end()))
    this.#take(this.#stream.end())
    if (this.#file) closeSync(this.#file.fd)
    const file = this.#file?.path ?? null
    if (this.#said <= this.#options.keep) {
      return { text: Buffer.concat([...this.#head, ...this.#tail]).toString('utf8'), truncated: false, file }
    }
    const head = wholeCharacters(Buffer.concat(this.#head), 'end')
    const tail = wholeCharacters(Buffer.concat(this.#tail), 'start')
    const left = this.#said - head.length - tail.length
    const text = `${head.toString('utf8')}\n[… ${left} bytes left out …]\n${tail.toString('utf8')}`
    return { text, truncated: true, file }
  }

  #take(text: string): void {
    if (text === '') return
    // NUL is well-formed but refused by more than one endpoint.
    const clean = wellFormed(text).replaceAll('\0', '\uFFFD')
    const bytes = Buffer.from(clean)
    this.#said += bytes.length
    for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) this.#lines++
    this.#isOpen = bytes.at(-1) !== 0x0a
    const isLong = this.#said > this.#options.keep || this.#lines + (this.#isOpen ? 1 : 0) > shortLines
    if (isLong || this.#file) this.#save(bytes)
    if (this.#options.log !== undefined) this.#fresh = `${this.#fresh}${clean}`.slice(-2 * this.#options.keep)
    const half = Math.ceil(this.#options.keep / 2)
    const first = bytes.subarray(0, Math.max(0, half - this.#headBytes))
    this.#head.push(first)
    this.#headBytes += first.length
    this.#tail.push(bytes.subarray(first.length))
    this.#tailBytes += bytes.length - first.length
    for (
      let over = this.#tailBytes - (this.#options.keep - half);
      over > 0;
      over = this.#tailBytes - (this.#options.keep - half)
    ) {
      const oldest = this.#tail[0]
      if (!oldest) break
      const rest = oldest.subarray(over)
      this.#tailBytes -= oldest.length - rest.length
      if (rest.length > 0) this.#tail[0] = Buffer.from(rest)
      else this.#tail.shift()
    }
  }

  /** Writes to the file, what was said so far first. Before the first call the head and tail still hold all of it. */
  #save(bytes: Buffer): void {
    const { folder } = this.#options
    if (folder !== undefined && !this.#file) {
      const file = this.#open(join(folder, `command-${ulid().toLowerCase()}.txt`))
      for (const earlier of [...this.#head, ...this.#tail]) writeSync(file.fd, earlier)
    }
    if (this.#file) writeSync(this.#file.fd, bytes)
  }

  #open(path: string): { path: string; fd: number } {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
    this.#file = { path, fd: openSync(path, flags, 0o644) }
    return this.#file
  }
}

/** Leaves out a character that is cut in two at one end. */
const wholeCharacters = (bytes: Buffer, at: 'start' | 'end'): Buffer => {
  const isInner = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80
  if (at === 'start') {
    let from = 0
    while (from < 4 && isInner(bytes[from])) from++
    return bytes.subarray(from)
  }
  let lead = bytes.length - 1
  while (lead > bytes.length - 4 && isInner(bytes[lead])) lead--
  const first = bytes[lead] ?? 0
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1
  return lead + length > bytes.length ? bytes.subarray(0, lead) : bytes
}
