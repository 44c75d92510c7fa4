import type { FromThread, ToThread } from '../../src/protocol/thread.ts'
import type { Thread, ThreadOptions } from '../../src/supervisor/thread.ts'

/** What runs in a simulated thread: a teammate. */
export interface Body {
  start(): void
  hear(message: ToThread): void
}

/** A thread without a thread: what it is told and what it says wait in order until the schedule hands on the next of them. */
export class SimThread implements Thread {
  readonly name: string
  readonly ended: Promise<void>
  readonly to: ToThread[] = []
  readonly from: FromThread[] = []
  body: Body | null = null
  isStarted = false
  isDead = false
  isGone = false
  #why = ''
  readonly #o: ThreadOptions
  #resolve: () => void = () => undefined
  readonly #onPost: (message: ToThread) => void

  constructor(o: ThreadOptions, onPost: (message: ToThread) => void) {
    this.#o = o
    this.name = o.data.name
    this.#onPost = onPost
    this.ended = new Promise(resolve => {
      this.#resolve = resolve
    })
  }

  post(message: ToThread): void {
    this.#onPost(message)
    if (!this.isDead) this.to.push(message)
  }

  kill(why: string): void {
    if (this.isDead) return
    this.isDead = true
    this.#why = why
    this.to.length = 0
    this.body = null
  }

  /** What it says. */
  readonly say = (message: FromThread): void => {
    if (this.isDead) return
    this.from.push(message)
  }

  begin(body: Body): void {
    this.isStarted = true
    this.body = body
    this.#o.onOnline()
    body.start()
  }

  /** The holder hears the next thing that it said, and after the last, that it is gone. */
  hand(): void {
    const message = this.from.shift()
    if (message) {
      this.#o.onMessage(message)
      return
    }
    this.isGone = true
    this.#o.onEnd(this.#why)
    this.#resolve()
  }
}

let opener: ((o: ThreadOptions) => Thread) | null = null
/** Who makes the threads from now on. */
export const openThreadsWith = (open: ((o: ThreadOptions) => Thread) | null): void => {
  opener = open
}
/** In the place of the product's own. */
export const openThread = (o: ThreadOptions): Thread => {
  if (!opener) throw new Error('a thread outside of a simulation')
  return opener(o)
}
