interface Call {
  readonly name: string
  readonly call: number
  readonly go: () => void
}

/**
 * The calls of models that are being made, of which there are at most `limit()` at a time over the whole team. Who waits is let in as a
 * place gets free: of those with the fewest calls under way the one who waits longest, so that nobody who makes several at a
 * time keeps out who makes one. In memory alone: a call ends with the thread that makes it.
 */
export class ModelCalls {
  readonly #limit: () => number
  readonly #waiting: Call[] = []
  readonly #made: Call[] = []

  constructor(limit: () => number) {
    this.#limit = limit
  }

  /** Resolves when the call may be made, or when it is given up. `call` is its caller's own number for it. */
  enter(name: string, call: number): Promise<void> {
    return new Promise(go => {
      this.#waiting.push({ name, call, go })
      this.look()
    })
  }

  /** The call has ended, or is given up. */
  leave(name: string, call: number): void {
    this.#drop(each => each.name === name && each.call === call)
  }

  /** Its thread makes no call any more. */
  gone(name: string): void {
    this.#drop(each => each.name === name)
  }

  /** Lets in whom there is a place for, the limit being another one. */
  look(): void {
    while (this.#waiting.length > 0 && this.#made.length < this.#limit()) {
      const under = (name: string) => this.#made.filter(each => each.name === name).length
      const fewest = Math.min(...this.#waiting.map(each => under(each.name)))
      const next = this.#waiting.findIndex(each => under(each.name) === fewest)
      const [call] = this.#waiting.splice(next, 1)
      if (!call) return
      this.#made.push(call)
      call.go()
    }
  }

  #drop(is: (call: Call) => boolean): void {
    for (const list of [this.#waiting, this.#made])
      for (const call of list.filter(is)) {
        list.splice(list.indexOf(call), 1)
        call.go()
      }
    this.look()
  }
}
