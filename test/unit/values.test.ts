import { expect, test } from 'vitest'
import type { Cli } from '../../src/cli/cli.ts'
import { commandTable } from '../../src/cli/completion/table.ts'
import { allFamilies } from '../../src/cli/main.ts'
import { badValue } from '../../src/cli/values.ts'

const rows = commandTable(await allFamilies(), {} as Cli)
const valued = rows.flatMap(({ path, options }) =>
  options
    .filter(option => option.takesValue)
    .flatMap(option => option.flags.map(flag => ({ path, flag, words: [...path.split(' '), flag], option }))),
)

test.each(valued)('an empty value, or none, of team $path $flag is wrong use', ({ words, flag, option }) => {
  const needs = { message: `${flag} needs a value`, hint: expect.any(String) }
  expect(badValue(words, rows)).toEqual(needs)
  expect(badValue([...words, '--json'], rows)).toEqual(needs)
  for (const given of [
    [...words, ''],
    [...words.slice(0, -1), `${flag}=`],
  ])
    expect(badValue(given, rows)).toEqual(option.mayBeEmpty ? null : needs)
  expect(badValue([...words, '7'], rows)).toBeNull()
  expect(badValue([...words.slice(0, -1), `${flag}=7`], rows)).toBeNull()
})

test.each(valued.filter(({ option }) => option.isNumber))(
  'what is no number is wrong use of team $path $flag, and a negative one is left to the command',
  ({ words }) => {
    for (const value of ['NaN', 'Infinity', '1e3', '0x10', ' 5', 'soon', '-'])
      expect(badValue([...words, value], rows)?.message).toContain('takes a number, not')
    for (const value of ['0', '-5', '1.5']) expect(badValue([...words, value], rows)).toBeNull()
  },
)

test('there are such options, and a value that begins with a dash has its form', () => {
  expect(valued.filter(({ option }) => option.isNumber).map(({ path }) => path)).toEqual(
    expect.arrayContaining(['down', 'inbox', 'logs', 'prefix', 'replay', 'task add']),
  )
  expect(badValue(['reject', '1', '--reason', '-x broke'], rows)?.hint).toContain('--reason=-x broke')
  expect(badValue(['reject', '1', '--reason=-x broke'], rows)).toBeNull()
  expect(badValue(['--root', 'task', 'task', 'add', 'x', '--priority', ''], rows)?.message).toBe(
    '--priority needs a value',
  )
  expect(badValue(['--root'], rows)?.message).toBe('--root needs a value')
  expect(badValue(['send', 'a', 'b', '--replyTo', ''], rows)?.message).toBe('--replyTo needs a value')
  expect(badValue(['task', 'add', 'x', '-d', '-'], rows)).toBeNull()
})

test('of short options in one word each needs its value too', () => {
  const said = (...words: string[]) => badValue(words, rows)?.message ?? null
  expect(said('logs', '-fn')).toBe('-n needs a value')
  expect(said('logs', '-fn', '--json')).toBe('-n needs a value')
  expect(said('logs', '-nf', '5')).toBe('-n needs a value')
  expect(said('logs', '-fn=')).toBe('-n needs a value')
  expect(said('logs', '-fn', 'soon')).toBe('-n takes a number, not "soon"')
  expect(said('logs', '-fn=soon')).toBe('-n takes a number, not "soon"')
  expect(said('task', 'add', 'x', '-dtext')).toBe('-d needs a value')
  for (const words of [['-fn', '5'], ['-fn5'], ['-n5'], ['-n=5'], ['-n-5'], ['-f'], ['-fn', '-5'], ['-fx']])
    expect(said('logs', ...words)).toBeNull()
  // The value is no argument of the command.
  expect(said('logs', '-fn', '5', '')).toBe('an argument is empty')
})

test('an empty name or id is wrong use', () => {
  for (const words of [
    ['chat', ''],
    ['task', 'show', ''],
    ['approve', '1', ''],
    ['permissions', 'remove', ''],
    ['down', ''],
  ])
    expect(badValue(words, rows)?.message).toBe('an argument is empty')
  expect(badValue(['send', '', 'x'], rows)).toBeNull()
})
