import { expect, test } from 'vitest'
import { Pulse } from '../../../src/supervisor/pulse.ts'

/** Looks once a tick from `from` on, for `ms`; gives who was silent for too long at any of the looks. */
const lookFor = (pulse: Pulse, from: number, ms: number) => {
  const silent: string[] = []
  for (let now = from; now <= from + ms; now += pulse.tickMs) silent.push(...pulse.look(now))
  return silent
}

test('a thread that says nothing for longer than the limit is found, one that beats is not', () => {
  const pulse = new Pulse(30_000)
  pulse.heard('mute')
  pulse.heard('alive')
  const silent = new Set<string>()
  for (let now = 0; now <= 40_000; now += pulse.tickMs) {
    if (now % 2_000 === 0) pulse.heard('alive')
    for (const name of pulse.look(now)) silent.add(name)
  }
  expect([...silent]).toEqual(['mute'])
})

test('a thread is not given up before the limit has passed', () => {
  const pulse = new Pulse(30_000)
  pulse.heard('mute')
  expect(lookFor(pulse, 0, 29_000)).toEqual([])
  expect(lookFor(pulse, 29_000, 3_000)).not.toEqual([])
})

test('C09 time in which the daemon itself did not run is no silence of its threads', () => {
  const pulse = new Pulse(30_000)
  pulse.heard('asleep too')
  expect(lookFor(pulse, 0, 20_000)).toEqual([])
  // The whole machine sleeps for an hour, again and again; the threads' beats are read only after the next look.
  for (let sleep = 1; sleep <= 4; sleep++) expect(pulse.look(20_000 + sleep * 3_600_000)).toEqual([])
})

test('C09 a thread that hangs is found after a sleep as well', () => {
  const pulse = new Pulse(30_000)
  pulse.heard('mute')
  pulse.look(0)
  pulse.look(3_600_000)
  expect(lookFor(pulse, 3_600_000, 31_000)).toContain('mute')
})

test('a thread that ended is watched no longer', () => {
  const pulse = new Pulse(1_000)
  pulse.heard('gone')
  pulse.drop('gone')
  expect(lookFor(pulse, 0, 10_000)).toEqual([])
})

test('one that may take longer is given that on top, is late before it is silent for too long, and neither over a stop of the whole process', () => {
  const pulse = new Pulse(300_000)
  const seen: string[] = []
  pulse.heard('busy', 3_600_000)
  pulse.heard('stuck', 120_000)
  let asleep = 0
  for (let ran = 0; ran <= 600_000; ran += pulse.tickMs) {
    // An hour in which the process did not run: it counts as two looks.
    if (ran === 200_000) asleep = 3_600_000
    for (const name of pulse.look(asleep + ran)) {
      seen.push(`${name} ${Math.round(ran / 1000)}`)
      pulse.drop(name)
    }
    if (ran === 260_000) expect(pulse.isLate('stuck')).toBe(false)
    if (ran === 290_000)
      expect(['stuck', 'busy', 'nobody'].map(name => pulse.isLate(name))).toEqual([true, false, false])
  }
  expect(seen).toEqual(['stuck 420'])
})
