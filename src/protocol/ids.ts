import * as z from 'zod'

/**
 * A teammate's name: valid in a file name, a git ref and a shell word. Unique without regard to case.
 * `user` is the human's inbox, `supervisor` the daemon's own.
 */
export const namePattern = /^[a-z0-9][a-z0-9-]{0,62}$/
export const reservedNames = ['user', 'human', 'supervisor', 'all', 'auto', 'skills'] as const
/** Reserved for the teammate that `lead` in config.json names. */
export const leadNames = ['lead', 'leader'] as const

export const Name = z
  .string()
  .regex(namePattern, 'use a-z, 0-9 and -, at most 63 characters, starting with a letter or digit')

/** Ids of tasks are what people type: short decimal numbers, or what a hand-made file brought along. */
export const taskIdPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
export const TaskId = z.string().regex(taskIdPattern, 'use letters, digits, . _ -, at most 64 characters')

export const MessageId = z.string().min(1).max(128)
export const RequestId = z.string().regex(/^req_[A-Za-z0-9_-]{1,64}$/)

/** Who acts: the person at the CLI, the daemon itself, or a teammate by name. Stamped by the holder, never claimed. */
export const Actor = z.union([z.literal('human'), z.literal('supervisor'), Name])
export type Actor = z.infer<typeof Actor>

/** The branch that belongs to a task. */
export const taskBranch = (id: string): string => `team/task-${id}`
