import type { Config, Member } from '../protocol/config.ts'

/** Who is on the team now, and by which rules. The one owner of both: everybody reads them here, each time anew. */
export class Roster {
  #config: Config
  #members: readonly Member[]
  #leaving: ReadonlySet<string> = new Set()
  readonly #unready = new Set<string>()

  constructor(config: Config, members: readonly Member[]) {
    this.#config = config
    this.#members = members
  }

  /** What holds from now on. Those who are `leaving` are on the team until they are gone; there is nothing new for them. */
  set(config: Config, members: readonly Member[], leaving: readonly Member[]): void {
    this.#config = config
    this.#members = [...members, ...leaving]
    this.#leaving = new Set(leaving.map(member => member.name))
  }

  /** Somebody who was leaving is gone. */
  drop(name: string): void {
    this.set(
      this.#config,
      this.#members.filter(member => !this.#leaving.has(member.name)),
      this.#members.filter(member => this.#leaving.has(member.name) && member.name !== name),
    )
  }

  isLeaving(name: string): boolean {
    return this.#leaving.has(name)
  }

  /** Could its home and its clone be made? Who is not ready is on the team and does not run, until a person mends that. */
  isReady(name: string): boolean {
    return !this.#unready.has(name)
  }

  setReady(name: string, isSo: boolean): void {
    if (isSo) this.#unready.delete(name)
    else this.#unready.add(name)
  }

  get config(): Config {
    return this.#config
  }

  /** In the order of config.json; then those who are leaving. */
  get members(): readonly Member[] {
    return this.#members
  }

  get names(): string[] {
    return this.#members.map(member => member.name)
  }

  find(name: string): Member | undefined {
    return this.#members.find(member => member.name === name)
  }

  has(name: string): boolean {
    return this.find(name) !== undefined
  }
}
