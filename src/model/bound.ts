import type { ModelConfig } from '../protocol/config.ts'

/** What of an answer is taken in. Past it the answer is given up, so that a runaway one fills no heap and holds no thread. */
export interface AnswerBound {
  /** Text, thoughts and arguments together, in characters; one event of a stream, in bytes. */
  readonly answer: number
  /** A body that is no stream, in bytes: a character may be escaped to six, and there are envelopes around. */
  readonly body: number
}

const mostAnswer = 8_000_000
const leastAnswer = 1_000_000
/** No token is longer, and most are far shorter. */
const charactersPerToken = 64
/** Of an error's body what is read: what it says stands at its start. */
const errorBytes = 65_536

/** The bound that fits the model's own limit where one is set. */
export const answerBound = ({ maxOutputTokens }: Pick<ModelConfig, 'maxOutputTokens'>): AnswerBound => {
  const wanted = maxOutputTokens === undefined ? mostAnswer : maxOutputTokens * charactersPerToken
  const answer = Math.max(leastAnswer, Math.min(mostAnswer, wanted))
  return { answer, body: 4 * answer }
}

/** More came than anything sensible holds. */
export class AnswerTooLarge extends Error {
  constructor(bytes: number) {
    super(`the answer is larger than ${Math.floor(bytes / 1_000_000)} MB and was given up; nothing of it was run`)
  }
}

/**
 * A response whose body ends with `AnswerTooLarge` past the bound: a whole body, or one event of a stream. The body of an
 * error is cut instead, since its status says enough. Events are passed on whole: the client searches all of an unfinished
 * one anew with each piece, which takes minutes for a large one.
 */
export const boundResponse = (response: Response, bound: AnswerBound): Response => {
  if (!response.body) return response
  const through = !response.ok
    ? cutAt(errorBytes)
    : isJson(response.headers)
      ? failPast(bound.body)
      : wholeEvents(bound.answer)
  const { status, statusText, headers } = response
  const body = response.body.pipeThrough(through)
  return new Response(response.ok ? body : body.pipeThrough(unlisted()), { status, statusText, headers })
}

/** Google puts the object of an error into a list, of which the client would read nothing. */
const unlisted = (): Through => {
  const chunks: Uint8Array[] = []
  return new TransformStream({
    transform(chunk) {
      chunks.push(chunk)
    },
    flush(controller) {
      const bytes = joined(chunks)
      controller.enqueue(firstOfList(bytes) ?? bytes)
    },
  })
}

const firstOfList = (bytes: Uint8Array): Uint8Array<ArrayBuffer> | null => {
  const text = Buffer.from(bytes).toString('utf8').trim()
  if (!text.startsWith('[')) return null
  try {
    const list: unknown = JSON.parse(text)
    const [first] = Array.isArray(list) ? (list as unknown[]) : []
    return first === undefined ? null : new Uint8Array(Buffer.from(JSON.stringify(first)))
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause
    return null
  }
}

export const isJson = (headers: Headers): boolean => /\bjson\b/i.test(headers.get('content-type') ?? '')

type Through = TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>

const failPast = (most: number): Through => {
  let size = 0
  return new TransformStream({
    transform(chunk, controller) {
      size += chunk.byteLength
      if (size > most) throw new AnswerTooLarge(most)
      controller.enqueue(chunk)
    },
  })
}

/** Passes a stream on in whole events (each ends with an empty line), so that none is searched before it is complete. */
const wholeEvents = (most: number): Through => {
  let held: Uint8Array<ArrayBuffer>[] = []
  let size = 0
  let seam = Buffer.alloc(0)
  return new TransformStream({
    transform(chunk, controller) {
      const looked = Buffer.concat([seam, chunk])
      const ends = blankLines.map(blank => {
        const at = looked.lastIndexOf(blank, undefined, 'latin1')
        return at === -1 ? -1 : at + blank.length - seam.byteLength
      })
      seam = Buffer.from(looked.subarray(-3))
      const end = Math.max(0, ...ends)
      if (end > 0) {
        if (size + end > most && size > 0) throw new AnswerTooLarge(most)
        controller.enqueue(joined([...held, chunk.subarray(0, end)]))
        held = []
        size = 0
      }
      if (end < chunk.byteLength) held.push(chunk.subarray(end))
      size += chunk.byteLength - end
      if (size > most) throw new AnswerTooLarge(most)
    },
    flush(controller) {
      if (held.length > 0) controller.enqueue(joined(held))
    },
  })
}

const blankLines = ['\n\n', '\r\n\r\n', '\r\r']

const joined = (parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.concat(parts))

const cutAt = (most: number): Through => {
  let left = most
  return new TransformStream({
    transform(chunk, controller) {
      const part = chunk.subarray(0, left)
      left -= part.byteLength
      if (part.byteLength > 0) controller.enqueue(part)
      if (left === 0) controller.terminate()
    },
  })
}
