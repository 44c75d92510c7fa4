import { join } from 'node:path'

/** In dir mode with the workspace at or above the root, a check must not see the run state. */
export const hiddenPaths = (o: { root: string; mode: string; workspace: string }): string[] =>
  o.mode === 'dir' && `${o.root}/`.startsWith(`${o.workspace}/`)
    ? ['.messages', '.tasks', '.team', '.transcripts', 'team', 'config.json'].map(name => join(o.root, name))
    : []
