/** The first wait, and what the doubling ends at, in milliseconds. */
export const firstDelay = 1_000
export const longestDelay = 60_000

/**
 * How long to wait before restart number `restart` (1 is the first), in milliseconds: 1 s doubling to 60 s, of which up to
 * a quarter is taken off at random, so that teammates that died together do not come back together. Each wait is longer
 * than the one before it until the cap. `random` is in [0, 1).
 */
export const restartDelay = (restart: number, random: number): number =>
  Math.min(longestDelay, firstDelay * 2 ** Math.min(restart - 1, 30)) * (1 - random / 4)

export type AfterDeath =
  | { readonly next: 'restart'; readonly restart: number; readonly inMs: number }
  | { readonly next: 'fail' }

/** What follows a death, after `restarts` restarts without progress of which `limit` are allowed. */
export const afterDeath = (restarts: number, limit: number, random: number): AfterDeath =>
  restarts >= limit
    ? { next: 'fail' }
    : { next: 'restart', restart: restarts + 1, inMs: restartDelay(restarts + 1, random) }
