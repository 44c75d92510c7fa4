import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Cli } from '../../src/cli/cli.ts'
import { commandTable } from '../../src/cli/completion/table.ts'
import { allFamilies } from '../../src/cli/main.ts'

const text = readFileSync('docs/commands.md', 'utf8')
const part = new Map(
  text
    .split(/^## /m)
    .slice(1)
    .map(section => [section.slice(0, section.indexOf('\n')), section]),
)
const family: Readonly<Record<string, string>> = {
  approve: 'requests',
  reject: 'requests',
  ask: 'requests',
  answer: 'requests',
  ps: 'status',
}

test('docs/commands.md has every command, and each option of it in its part', async () => {
  const missing = commandTable(await allFamilies(), {} as Cli).flatMap(({ path, options }) => {
    const word = path.split(' ')[0] ?? ''
    const section = [...part].find(([title]) => new RegExp(`^team ${family[word] ?? word}\\b`).test(title))?.[1]
    if (section === undefined) return [path]
    return options
      .filter(
        ({ flags }) => !flags.some(flag => section.includes(flag) || section.includes(flag.replace('--', '--no-'))),
      )
      .map(({ flags }) => `${path} ${flags[0]}`)
  })
  expect(missing).toEqual([])
})
