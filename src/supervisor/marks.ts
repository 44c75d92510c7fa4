import { join } from 'node:path'

/** Carried by every command that is started for a teammate of this root, so that what it leaves behind is known as such. */
export const marker = (root: string, name: string): string => `${root}#${name}`

/** In dir mode with the workspace at or above the root, a check must not see the run state. */
export const hiddenPaths = (o: { root: string; mode: string; workspace: string }): string[] =>
  o.mode === 'dir' && `${o.root}/`.startsWith(`${o.workspace}/`)
    ? ['.messages', '.tasks', '.team', '.transcripts', 'team', 'config.json'].map(name => join(o.root, name))
    : []
