import type { HeldUp } from '../protocol/teammate.ts'
import type { ThreadStatus } from './threads.ts'

/**
 * What keeps a teammate from its work, since when, and how it ends: told apart by what is known of it, the worst first.
 *
 *   dead      its thread died: started again by itself, or given up, for a person to start
 *   stuck     nothing comes of what it does beyond its time, or its thread gives no sign of life: started anew by itself
 *   looping   calls come, and nothing of them: it was told, and its turn ends where it goes on
 *   waiting   for somebody or something that is named; it goes on when that is there
 *
 * Null where it works, or has nothing to do. `task`: in its hands.
 */
export const heldUp = (name: string, status: ThreadStatus, task: string | null): HeldUp | null => {
  const { state, since, waiting, restarts, reason, stall, stuck } = status
  if (state === 'failed')
    return { how: 'dead', what: reason ?? 'it was given up', whom: 'human', since, remedy: `team restart ${name}` }
  if (state === 'starting' && restarts > 0)
    return {
      how: 'dead',
      what: reason ?? 'its thread ended',
      whom: 'supervisor',
      since,
      remedy: `it is started again by itself${waiting === null ? '' : ` (${waiting.what})`}`,
    }
  if (stuck !== null)
    return {
      how: 'stuck',
      what: stuck.text,
      whom: 'supervisor',
      since: stuck.since,
      remedy: 'its thread is ended and started again when it goes on like this',
    }
  if (state === 'waiting' && waiting !== null)
    return { how: 'waiting', what: waiting.what, whom: waiting.whom, since, remedy: endOf(name, waiting) }
  if (state === 'working' && stall !== null && stall.task === task)
    return {
      how: 'looping',
      what: stall.text,
      whom: name,
      since: stall.since,
      remedy: `it was told; at three times as much the task fails. team send ${name} may help, team task cancel ${stall.task} ends it`,
    }
  return null
}

const endOf = (name: string, { whom, request }: NonNullable<ThreadStatus['waiting']>): string => {
  if (request !== undefined)
    return `team requests ${request}${whom === 'supervisor' ? '' : `, team approve ${request}`}`
  return whom === 'human'
    ? `mend it; where it does not go on by itself: team send ${name} "go on"`
    : 'it goes on by itself'
}
