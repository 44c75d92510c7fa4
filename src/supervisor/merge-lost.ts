import { shellWord } from '../git/script.ts'
import type { Core } from './core.ts'
import { humanInbox } from './mail.ts'
import type { Notices } from './notices.ts'

/** So many of the last merges are looked for: what was before them came with them. */
const most = 200

/**
 * The trunk is moved by the supervisor alone, and only on. One that a foreign hand moved back, or a hub that came from a backup,
 * holds no more what is on record as merged: that stands as a problem, and the human is told once of each state.
 */
export class MergesLost {
  readonly #core: Core
  readonly #notices: Pick<Notices, 'problem' | 'tell'>
  /** The trunk, and the last merge on record, that were found to be in order. */
  #seen: string | null = null

  constructor(core: Core, notices: Pick<Notices, 'problem' | 'tell'>) {
    this.#core = core
    this.#notices = notices
  }

  /** `trunk`: where it stands now. What a new hub lacks was told when it was made. */
  async look(trunk: string): Promise<void> {
    const { hub, store } = this.#core
    if (!hub || hub.made) return
    // What is on record was on the trunk before that, so these are taken before the trunk is asked.
    const merges = [...store.tasks.list()]
      .flatMap(([id, { value }]) => {
        const commit = value.result?.commit
        return commit === undefined ? [] : [{ id, commit, at: value.completedAt ?? '' }]
      })
      .sort((a, b) => b.at.localeCompare(a.at))
      .slice(0, most)
    const [newest] = merges
    const seen = `${trunk} ${newest?.commit}`
    if (!newest || this.#seen === seen) return
    const off = await hub.offTrunk(merges.map(({ commit }) => commit))
    if (!off.ok) return
    const lost = merges.filter(({ commit }) => off.value.includes(commit))
    const [last] = lost
    this.#seen = last ? null : seen
    if (!last) return this.#notices.problem('trunk/lost', null)
    const ids = lost.map(({ id }) => id).reverse()
    const text = `${hub.trunkName} does not hold any more what was merged to it by ${ids.length === 1 ? 'task' : 'tasks'} ${ids.join(', ')}: something other than the team moved it back. To have it again: in ${hub.workspace.top}, git fetch ${shellWord(hub.dir)} ${last.commit} && git merge FETCH_HEAD, on ${hub.baseName}`
    this.#notices.problem('trunk/lost', text)
    this.#notices.tell(humanInbox, `msg_trunk_lost_${last.commit}_${ids.length}`, text)
  }
}
