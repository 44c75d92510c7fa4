import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { type Clock, delay } from '../lib/clock.ts'
import { findRoot } from '../store/find-root.ts'
import { parented } from './parent.ts'

/**
 * The parents of `root`'s daemon: each a `team up` that starts it again when it has died, and may be waiting to do so. Linux only;
 * elsewhere, and where another user started one, there is none to find.
 */
export const parentsOf = (root: string): number[] => {
  let names: string[]
  try {
    names = readdirSync('/proc').filter(name => /^\d+$/.test(name))
  } catch {
    return []
  }
  return names.map(Number).filter(pid => pid !== process.pid && isParent(pid, root))
}

/**
 * Ends them, which ends what they have started by then too. Resolves with the process ids; `alive` for one that is still there after
 * `patienceMs`.
 */
export const endParents = async (
  root: string,
  clock: Clock,
  patienceMs: number,
): Promise<{ readonly pid: number; readonly alive: boolean }[]> => {
  const found = parentsOf(root)
  for (const pid of found) {
    try {
      process.kill(pid, 'SIGTERM')
    } catch (error) {
      // It has ended meanwhile, or is another user's.
      if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    }
  }
  const until = clock.mono() + patienceMs
  while (found.some(pid => isParent(pid, root)) && clock.mono() < until) await delay(10)
  return found.map(pid => ({ pid, alive: isParent(pid, root) }))
}

/** Judged by its arguments, since a process id alone may be another program's by now. */
const isParent = (pid: number, root: string): boolean => {
  try {
    const [, script = '', ...argv] = wordsOf(`/proc/${pid}/cmdline`)
    if (!/(^|\/)team(\.cjs)?$/.test(script) || !argv.includes('up')) return false
    const env = Object.fromEntries(
      wordsOf(`/proc/${pid}/environ`).map(word => [
        word.slice(0, word.indexOf('=')),
        word.slice(word.indexOf('=') + 1),
      ]),
    )
    if (!parented(argv, env)) return false
    const at = argv.indexOf('--root')
    const named = at >= 0 ? argv[at + 1] : argv.find(arg => arg.startsWith('--root='))?.slice('--root='.length)
    const its = findRoot({ root: named, cwd: readlinkSync(`/proc/${pid}/cwd`), env })
    return its.ok && its.value === root
  } catch {
    // It has ended, or belongs to another user.
    return false
  }
}

const wordsOf = (file: string): string[] => readFileSync(file, 'utf8').split('\0').slice(0, -1)
