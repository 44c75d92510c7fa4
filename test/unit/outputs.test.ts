import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { outputSchema, outputs } from '../../src/cli/outputs.ts'

const names = Object.keys(outputs) as (keyof typeof outputs)[]

test.each(names)('the published JSON Schema of %s is the one that the code gives', name => {
  const published: unknown = JSON.parse(readFileSync(`docs/json/${name}.schema.json`, 'utf8'))
  expect(JSON.parse(JSON.stringify(outputSchema(name))), 'run node scripts/schema.mjs').toEqual(published)
})

test('nothing else is published beside them', () => {
  expect(readdirSync('docs/json').sort()).toEqual(names.map(name => `${name}.schema.json`).sort())
})
