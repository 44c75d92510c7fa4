import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** A new empty folder, and how to remove it. */
export const tempRoot = (): { root: string; remove: () => void } => {
  const root = mkdtempSync(join(tmpdir(), 'team-folders-'))
  return { root, remove: () => rmSync(root, { recursive: true, force: true }) }
}

/** Resolves with the first value of `look` that is neither undefined nor false; fails after `ms`, saying `what`. */
export const until = async <T>(what: string, look: () => T | undefined | false, ms = 45_000): Promise<T> => {
  const end = performance.now() + ms
  for (;;) {
    const value = look()
    if (value !== undefined && value !== false) return value
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`)
    await sleep(10)
  }
}

/** Runs a script (CommonJS text) in another process; `done` resolves when it ended well. */
export const foreign = (script: string, args: readonly string[]): { child: ChildProcess; done: Promise<void> } => {
  const child = spawn(process.execPath, ['-e', script, ...args], { stdio: ['ignore', 'ignore', 'inherit'] })
  const done = new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', code => (code === 0 ? resolve() : reject(new Error(`the writer ended with ${code}`))))
  })
  return { child, done }
}

export const json = (path: string): Record<string, unknown> => JSON.parse(readFileSync(path, 'utf8'))
