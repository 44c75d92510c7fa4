import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unwrap } from '../../src/lib/result.ts'
import { prepareHome } from '../../src/sandbox/home.ts'
import { makeView, type View, type ViewOptions } from '../../src/sandbox/view.ts'

export interface Place {
  readonly top: string
  readonly root: string
  readonly workspace: string
  /** The view of `name`, its home made ready. In git mode its `repo` is a plain folder. */
  view(name: string, options?: Partial<ViewOptions>): View
  remove(): void
}

/** A team root and a workspace in a temporary folder. `remove` it. */
export const makePlace = (workspaceAtRoot = false): Place => {
  const top = realpathSync(mkdtempSync(join(tmpdir(), 'team-place-')))
  const root = join(top, 'team-root')
  const workspace = workspaceAtRoot ? root : join(top, 'work')
  for (const folder of ['team/skills', '.team', '.tasks', '.messages'])
    mkdirSync(join(root, folder), { recursive: true })
  mkdirSync(workspace, { recursive: true })
  writeFileSync(join(root, 'config.json'), '{"teammates":[{"name":"alice"}]}')
  return {
    top,
    root,
    workspace,
    view(name, options = {}) {
      const all: ViewOptions = { name, root, workspace, mode: 'dir', dataPaths: [], hub: null, ...options }
      unwrap(prepareHome(all))
      if (all.mode === 'git') mkdirSync(join(root, 'team', name, 'repo'), { recursive: true })
      return makeView(all)
    },
    remove: () => rmSync(top, { recursive: true, force: true }),
  }
}

/** Waits until `check` is true; fails after `ms`. For what has no event. */
export const until = async (check: () => boolean, ms = 45_000): Promise<void> => {
  for (let waited = 0; !check(); waited += 20) {
    if (waited > ms) throw new Error('it did not come true in time')
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}
