import { rmSync } from 'node:fs'
import { layout } from '../store/root.ts'
import { type Core, clonePath } from './core.ts'
import { humanInbox } from './mail.ts'
import type { Notices } from './notices.ts'

/** Before anything is merged: no tree of an earlier daemon is verified on, and a hub that is new has what it should have. */
export const readyGit = async (core: Core, notices: Notices): Promise<void> => {
  rmSync(layout(core.root).verify, { recursive: true, force: true })
  await afterNewHub(core, notices)
}

/**
 * After a hub was made though the team has worked before (the one there was had been removed): takes in what the clones still
 * have of the tasks that are claimed done, so that their merges can go on, and tells what was merged and is nowhere any more.
 */
const afterNewHub = async (core: Core, notices: Notices): Promise<void> => {
  const { hub, store } = core
  if (!hub?.made) return
  const lost: string[] = []
  for (const [id, { value }] of store.tasks.list()) {
    const { branch, owner, result } = value
    if (branch === null || owner === null) continue
    if (value.claimed) await hub.fetchBranch(clonePath(core, owner), branch)
    if (result?.trunk !== undefined && !(await hub.has(result.trunk)))
      lost.push(`${id} (${branch} in team/${owner}/repo)`)
  }
  if (lost.length === 0) return
  const text = `.team/hub.git was made anew from the workspace. What was merged and had not been landed is not on the trunk any more: the work on ${lost.length === 1 ? 'task' : 'tasks'} ${lost.join(', ')} is left in the clone alone, where that still stands, or in a repo.damaged-<n> beside it`
  notices.stands('hub/new', text)
  notices.tell(humanInbox, `msg_hub_${store.seq}`, text)
}
