import { readFileSync } from 'node:fs'
import { expect } from 'vitest'
import * as z from 'zod'
import type { outputs } from '../../src/cli/outputs.ts'

/** What a program that only has the published file would say to an output. `lines`: one value a line. */
export const fits = (name: keyof typeof outputs, output: string, lines = false): void => {
  const schema = z.fromJSONSchema(JSON.parse(readFileSync(`docs/json/${name}.schema.json`, 'utf8')))
  const values = lines ? output.trim().split('\n') : [output]
  expect(values.length).toBeGreaterThan(0)
  for (const value of values) {
    const parsed = schema.safeParse(JSON.parse(value))
    expect(parsed.success ? null : `${name}: ${JSON.stringify(parsed.error.issues)} in ${value}`).toBe(null)
  }
}
