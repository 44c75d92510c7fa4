import fc from 'fast-check'

/** A schedule: one number a step. What it means depends on where things stand. */
export type Schedule = readonly number[]

export interface Simulation {
  readonly name: string
  /** Runs one schedule from nothing to rest; throws where something is as it must never be. */
  readonly run: (schedule: Schedule, trace?: (text: string) => void) => Promise<void>
  /** Steps of a schedule at most. */
  readonly length: number
}

const asked = (name: string): number | undefined => (process.env[name] ? Number(process.env[name]) : undefined)

/** Numbers that follow from a seed. */
const numbers = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) & 0x3fffffff
  }
}

export const scheduleOf = (seed: number, length: number): Schedule => {
  const next = numbers(seed)
  const n = 1 + (next() % length)
  return Array.from({ length: n }, next)
}

/** What is wrong, whoever and whatever it is about: so that making a schedule smaller does not lead to another fault. */
const kindOf = (error: unknown): string =>
  reason(error)
    .split('\n')[0]
    ?.replace(/\b(ann|bob|cid|h\d+|t\d+)\b|\d+/g, '_') ?? ''

const reason = (error: unknown): string => (error instanceof Error ? `${error.name}: ${error.message}` : String(error))

/**
 * Runs so many schedules, the first made from `seed`, the next from the number after it, and so on. The first that fails is
 * made as small as it will be, and thrown with all it did.
 */
export const simulate = async (
  simulation: Simulation,
  runs: number,
  seed: number,
  isMadeSmaller = true,
): Promise<{ runs: number; ms: number }> => {
  const { run, length, name } = simulation
  const wanted = isMadeSmaller ? (asked('SIMULATE_RUNS') ?? runs) : runs
  const from = isMadeSmaller ? (asked('SIMULATE_SEED') ?? seed) : seed
  const began = performance.now()
  for (let n = 0; n < wanted; n++) {
    const schedule = scheduleOf(from + n, length)
    try {
      await run(schedule)
    } catch (error) {
      const title = `${name}, seed ${from + n}: ${reason(error)}`
      throw isMadeSmaller ? await smallest(simulation, schedule, title, error) : new Error(title, { cause: error })
    }
  }
  const ms = performance.now() - began
  if (process.env.SIMULATE_RUNS)
    console.log(
      `${name}: ${wanted} schedules in ${(ms / 1000).toFixed(1)} s, ${Math.round((wanted * 1000) / ms)} a second`,
    )
  return { runs: wanted, ms }
}

const smallest = async (
  { run, length, name }: Simulation,
  found: Schedule,
  title: string,
  cause: unknown,
): Promise<Error> => {
  const schedules = fc.array(fc.integer({ min: 0, max: 0x3fffffff }), { maxLength: length })
  const kind = kindOf(cause)
  const property = fc.asyncProperty(schedules, async schedule => {
    try {
      await run(schedule)
    } catch (error) {
      if (kindOf(error) === kind) throw error
    }
  })
  const result = await fc.check(property, { examples: [[[...found]]], numRuns: 1, seed: 1 })
  const schedule = result.counterexample?.[0] ?? found
  const did: string[] = []
  let last = cause
  try {
    await run(schedule, text => did.push(text))
    did.push('(and it does not fail again: what it does is not told by the schedule alone)')
  } catch (error) {
    last = error
  }
  return new Error(
    `${title}\nmade smaller in ${result.numShrinks} steps from ${found.length} steps to ${schedule.length}: ${reason(last)}\n${did.map(each => `  ${each}`).join('\n')}\nschedule of ${name}: ${JSON.stringify(schedule)}`,
    { cause: last },
  )
}
