interface Mate {
  /** Times it wrote to a teammate after hearing from one, since anything else happened. */
  answers: number
  heard: boolean
  readonly peers: Set<string>
}

/**
 * Who only answers mail with mail. A round of a teammate is: it heard from teammates, and wrote to one. Anything else that
 * happens to it (a tool, a task, a word of the human) begins the count anew, for everyone it has been writing with too: so a
 * circle of three is seen like a pair, and a long report in many messages is one round.
 */
export class Rounds {
  readonly #mates = new Map<string, Mate>()

  of(name: string): number {
    return this.#mates.get(name)?.answers ?? 0
  }

  /** `from` wrote to `to`. */
  sent(from: string, to: string): void {
    const sender = this.#mate(from)
    const receiver = this.#mate(to)
    if (sender.heard) sender.answers++
    sender.heard = false
    receiver.heard = true
    sender.peers.add(to)
    receiver.peers.add(from)
  }

  /** Something else happened to `name`; answers with everyone whose count begins anew, itself among them. */
  happened(name: string): string[] {
    const circle = this.circle(name)
    for (const each of circle) this.#mates.delete(each)
    return circle
  }

  /** Those that `name` has been writing with, directly or through others, and itself. */
  circle(name: string): string[] {
    const found = new Set([name])
    for (const each of found) for (const peer of this.#mates.get(each)?.peers ?? []) found.add(peer)
    return [...found]
  }

  #mate(name: string): Mate {
    let mate = this.#mates.get(name)
    if (!mate) {
      mate = { answers: 0, heard: false, peers: new Set() }
      this.#mates.set(name, mate)
    }
    return mate
  }
}
