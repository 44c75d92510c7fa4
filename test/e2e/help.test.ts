import { expect, test } from 'vitest'
import { teamOk, tempFolder } from '../support/cli.ts'

/** The entries of one part of a help text, each with its description; a long one goes on in lines that stand further in. */
const entries = (help: string, part: string): { name: string; text: string }[] => {
  const lines = help.split('\n')
  const found: { name: string; text: string }[] = []
  const start = lines.indexOf(`${part}:`)
  if (start < 0) return found
  for (const line of lines.slice(start + 1)) {
    if (line.trim() === '') break
    const isEntry = part === 'Options' ? /^ +-/.test(line) : /^ {2}\S/.test(line)
    const last = found.at(-1)
    if (isEntry || !last) {
      const [name = '', ...rest] = line.trim().split(/ {2,}/)
      found.push({ name, text: rest.join(' ') })
    } else last.text += ` ${line.trim()}`
  }
  // What yargs adds by itself ([string], [default: 30]) says nothing of what it is for.
  return found.map(({ name, text }) => ({ name, text: text.replace(/\[[^\]]*\]/g, '').trim() }))
}

/** Every command with its help: `team` itself, and what the helps name, however deep. */
const helps = async (words: readonly string[], cwd: string): Promise<{ path: string; help: string }[]> => {
  const help = await teamOk([...words, '--help'], { cwd })
  const path = ['team', ...words].join(' ')
  const all = [{ path, help }]
  for (const { name } of entries(help, 'Commands')) {
    const word = name.slice(path.length).trim().split(' ')[0] ?? ''
    all.push(...(await helps([...words, word], cwd)))
  }
  return all
}

test('the help of every command describes each command, option and positional of it, and has an example', async () => {
  const all = await helps([], tempFolder())
  const faults: string[] = []
  for (const { path, help } of all) {
    for (const part of ['Commands', 'Positionals', 'Options'])
      for (const { name, text } of entries(help, part))
        if (text === '') faults.push(`${path}: ${name} has no description`)
    const positionals = (help.split('\n')[0] ?? '').match(/[<[][a-z]+(?:\.\.)?[>\]]/g) ?? []
    if (path !== 'team' && !path.endsWith(' task') && entries(help, 'Positionals').length !== positionals.length)
      faults.push(`${path}: of ${positionals.join(' ')} not each is described`)
    const examples = help.slice(help.indexOf('\nExamples:\n'))
    if (!help.includes('\nExamples:\n') || !examples.includes(path)) faults.push(`${path} has no example`)
    // A command that is too long is broken in two: its second half has no description either.
    for (const { name, text } of entries(help, 'Examples'))
      if (text === '') faults.push(`${path}: what is "${name}" an example of?`)
  }
  expect(faults).toEqual([])
  const paths = all.map(({ path }) => path)
  for (const words of [
    'init',
    'up',
    'down',
    'status',
    'task',
    'task add',
    'task retry',
    'inbox',
    'send',
    'requests',
    'approve',
  ])
    expect(paths).toContain(`team ${words}`)
  for (const words of ['reject', 'ask', 'answer', 'diff', 'land', 'restart', 'logs', 'doctor', 'demo'])
    expect(paths).toContain(`team ${words}`)
})
