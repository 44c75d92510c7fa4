import type { Config, Member } from '../protocol/config.ts'

/** Who is on the team now, and by which rules. The one owner of both: everybody reads them here, each time anew. */
export class Roster {
  #config: Config
  #members: readonly Member[]

  constructor(config: Config, members: readonly Member[]) {
    this.#config = config
    this.#members = members
  }

  get config(): Config {
    return this.#config
  }

  /** In the order of config.json. */
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
