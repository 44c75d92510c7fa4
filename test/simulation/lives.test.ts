import { expect, test } from 'vitest'
import { Intake } from '../../src/teammate/intake.ts'
import { ofLives } from './lives.ts'
import { simulate } from './run.ts'

const kinds = ['a team with a lead who decides, and caps', 'a team in one folder, where leases matter'] as const
for (const kind of kinds)
  test(`with teammates as they are: ${kind}`, async () => {
    const { runs } = await simulate(ofLives(kind), 60, 1)
    expect(runs).toBeGreaterThan(0)
  })

test('a hint that is forgotten is found', async () => {
  const { next } = Intake.prototype
  Intake.prototype.next = async function (mark) {
    const choice = await next.call(this, mark)
    this.due = false
    return choice && choice.picked.length > 0 ? null : choice
  }
  try {
    await expect(simulate(ofLives(kinds[1]), 100, 1, false)).rejects.toThrow(/never entered the context|steps without/)
  } finally {
    Intake.prototype.next = next
  }
})
