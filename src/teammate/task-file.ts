import { appendFileSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withoutHeading } from '../lib/text.ts'
import type { AssignedTask } from '../protocol/thread.ts'

/**
 * TASK.md: the task in hand, for people and for the teammate's own `read_file`; no tool can write it. A home that was removed
 * meanwhile ends no thread.
 */
export const writeTaskFile = (home: string, task: AssignedTask, at: string): void => {
  const facts = [
    `task ${task.id}, attempt ${task.attempt}, in hand since ${at}`,
    ...(task.branch === null ? [] : [`branch ${task.branch}`]),
    ...(task.paths.length === 0 ? [] : [`paths: ${task.paths.join(', ')}`]),
    ...(task.accept.length === 0 ? [] : [`must fail without the work and pass with it: ${task.accept.join('; ')}`]),
    ...(task.verify.length === 0 ? [] : [`counts as done when this passes: ${task.verify.join('; ')}`]),
  ]
  const returned = task.error === null ? '' : `\n## Sent back\n\n${task.error}\n`
  const text = `# ${task.title}\n\n${facts.map(fact => `- ${fact}`).join('\n')}\n\n${withoutHeading(task.description, task.title).trimEnd()}\n${returned}`
  mkdirSync(home, { recursive: true })
  const fresh = join(home, '.TASK.md.new')
  writeFileSync(fresh, text)
  renameSync(fresh, join(home, 'TASK.md'))
}

/** Adds to TASK.md what has to be known of the clone as it is for this task; nothing where there is nothing. */
export const addToTaskFile = (home: string, told: readonly string[]): void => {
  if (told.length === 0) return
  mkdirSync(home, { recursive: true })
  appendFileSync(join(home, 'TASK.md'), `\n## Your clone\n\n${told.map(text => `- ${text}`).join('\n')}\n`)
}

/** Marks the end of the task in TASK.md, so that whoever reads it later takes it for no work to be done. */
export const endTaskFile = (home: string, how: string, at: string): void => {
  mkdirSync(home, { recursive: true })
  appendFileSync(join(home, 'TASK.md'), `\n---\n\nEnded ${at}: ${how}\n`)
}
