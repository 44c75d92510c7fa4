import type { Requests } from './requests.ts'

/** The one timer for the deadlines of requests. */
export class Expiry {
  readonly #requests: Requests
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(requests: Requests) {
    this.#requests = requests
  }

  /** A request changed: waits for the next deadline, as it is now. */
  arm(): void {
    clearTimeout(this.#timer)
    const ms = this.#requests.untilNext()
    if (ms === null || this.#isClosed) return
    const expire = () => {
      this.#requests.expire()
      this.arm()
    }
    this.#timer = setTimeout(expire, Math.min(ms, 60_000))
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }
}
