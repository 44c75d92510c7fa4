import { expect, test } from 'vitest'
import { simulate } from './run.ts'
import { ofTeam, teams } from './teams.ts'

for (const kind of Object.keys(teams) as (keyof typeof teams)[])
  test(kind, async () => {
    const { runs } = await simulate(ofTeam(kind), 120, 1)
    expect(runs).toBeGreaterThan(0)
  })
