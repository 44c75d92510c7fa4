import { existsSync } from 'node:fs'
import { clonesIn, listSaved } from '../../git/rescue.ts'
import { bindGit } from '../../git/run.ts'
import { type LoadedConfig, layout } from '../../store/root.ts'
import type { Cli } from '../cli.ts'
import { savedWords } from '../render/saved.ts'
import { when } from '../render/text.ts'
import type { Check } from './machine.ts'

/** What was saved aside in this root: it is kept, so nothing is to be mended, and nobody may have heard of it. */
export const savedChecks = async (cli: Cli, root: string, { mode }: LoadedConfig): Promise<Check[]> => {
  const { hub, team } = layout(root)
  if (mode !== 'git' || !existsSync(hub)) return []
  const saved = await listSaved(bindGit({ env: cli.env, gitDir: hub }), clonesIn(team))
  // Of a hub in which git cannot work the leftovers tell.
  if (!saved.ok) return []
  const [newest] = saved.value
  if (!newest) return [{ what: 'saved aside', state: 'ok', detail: 'nothing', remedy: null }]
  const at = newest.at === null ? '' : ` of ${when(newest.at, cli.clock.wall())}`
  const detail = `${saved.value.length}, the newest ${newest.id}${at} (${savedWords(newest)}); team rescue list shows them`
  return [{ what: 'saved aside', state: 'ok', detail, remedy: null }]
}
