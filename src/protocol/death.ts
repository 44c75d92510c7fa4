import * as z from 'zod'

/** A death that is counted against the task in hand: when, whose, and what was heard of it last. */
export const Death = z.object({ at: z.string(), who: z.string(), why: z.string() })
export type Death = z.infer<typeof Death>

/** The deaths of a task since it was retried last, and in how many of the daemon's it was one of several suspects. */
export const TaskDeaths = z.object({ deaths: z.array(Death), suspected: z.number().int() })
export type TaskDeaths = z.infer<typeof TaskDeaths>

/** After the daemon died with several tasks in hand: those still to be tried alone, and the one that is. */
export const Suspects = z.object({ tasks: z.array(z.string()), alone: z.string().nullable() })
export type Suspects = z.infer<typeof Suspects>

/** Signals that a process brings upon itself. Whoever stops a daemon from outside sends others. */
const ownSignals = /^SIG(ABRT|SEGV|BUS|ILL|FPE|TRAP|SYS)$/

/**
 * Did the daemon die of something in it, as its parent saw it (`SIGABRT`, `exit 134`)? `SIGKILL`, `SIGTERM` and their like come
 * from outside (so does the kernel's, out of memory), and of a machine that lost its power nobody saw anything.
 */
export const isOwnDeath = (how: string): boolean => ownSignals.test(how) || /^exit \d+$/.test(how)

/** Was a thread ended by the machine: a full or broken disk, no file handles left? Such a death is no task's doing. */
export const isOfTheMachine = (why: string): boolean => /\b(ENOSPC|EDQUOT|EROFS|EIO|EMFILE|ENFILE)\b/.test(why)

/** Why a task is failed that so many died of. */
export const deathsText = (deaths: readonly Death[]): string =>
  `it was in hand at ${deaths.length} ${deaths.length === 1 ? 'death' : 'deaths'} (limits.deaths), and is not given out over and over: ${deaths
    .slice(-10)
    .map(({ at, who, why }) => `${who} at ${at}, ${why.slice(0, 300)}`)
    .join('; ')}`
