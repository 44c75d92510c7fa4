import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Cli } from '../../src/cli/cli.ts'
import { commandTable } from '../../src/cli/completion/table.ts'
import { allFamilies } from '../../src/cli/main.ts'
import { team, teamOk, teamRoot } from '../support/cli.ts'
import { gate, inboxOf, lastSaid, scriptedTeam } from '../support/scripted-team.ts'
import { hasTerminal, terminal } from '../support/terminal.ts'

const code = '\u001B'

/** A session of two turns, as its journal stands. */
const withSession = async (): Promise<string> => {
  const crew = await scriptedTeam({ alice: request => (lastSaid(request).includes('two') ? 'Second.' : 'First.') })
  const up = await crew.up()
  for (const text of ['one', 'two']) await team(['chat', 'alice', '--root', crew.root], { input: `${text}\n` })
  await teamOk(['task', 'add', 'Later', '--after', 'none', '--root', crew.root])
  await teamOk(['down', '--root', crew.root])
  expect(up.exitCode ?? 0).toBe(0)
  return crew.root
}

describe.skipIf(!hasTerminal)('in a terminal', () => {
  test('team chat: a line is sent, the reply is shown under its name, and an empty line ends it', async () => {
    const crew = await scriptedTeam({ alice: () => 'Two files.' })
    await crew.up()
    const at = terminal(['chat', 'alice', '--root', crew.root])
    await at.shows(/talking to alice; an empty line or n ends/)
    await at.shows(/you> /)
    at.type('What is left?\n')
    await at.shows(/alice[^\n]*\r\n {2}Two files\./)
    at.type('\n')
    expect(await at.ended()).toBe(0)
    expect((await inboxOf(crew.root, 'alice')).items.map(item => item.stored.message.content)).toEqual([
      'What is left?',
    ])
  })

  test('team chat: the answer is shown while it is written, what broke off is begun anew, and it is sent once', async () => {
    const rest = gate()
    const piece = (content: string, finish: string | null = null) => ({
      choices: [{ index: 0, delta: { content }, finish_reason: finish }],
    })
    const crew = await scriptedTeam({
      alice: (_request, n) =>
        n === 0
          ? { chunks: [piece('Half a sentence')], ends: 'cut' }
          : {
              chunks: (async function* () {
                yield piece('<think>How many?</think>')
                yield piece('Two \u001B[2Jfiles,\n')
                await rest.opened
                yield piece('and a folder.', 'stop')
              })(),
            },
    })
    await crew.up()
    const at = terminal(['chat', 'alice', '--root', crew.root])
    await at.shows(/you> /)
    at.type('What is left?\n')
    await at.shows(/alice[^\n]*\r\n {2}Half a sentence/)
    await at.shows(/ …\r\n\s*[^\n]*alice[^\n]*\r\n {2}Two ␛\[2Jfiles,\r\n/)
    expect((await inboxOf(crew.root, 'user')).items).toHaveLength(0)
    rest.open()
    await at.shows(/files,\r\n {2}and a folder\.\r\n[^\n]*you> /)
    at.type('\n')
    expect(await at.ended()).toBe(0)
    expect(at.shown().match(/Two /g)).toHaveLength(1)
    expect(at.shown()).not.toContain('How many?')
    expect((await inboxOf(crew.root, 'user')).items.map(item => item.stored.message.content)).toEqual([
      'Two \u001B[2Jfiles,\nand a folder.',
    ])
  })

  test('team chat: a line that is typed while an answer is written stands between its pieces, and none of it comes twice', async () => {
    const rest = gate()
    const piece = (content: string, finish: string | null = null) => ({
      choices: [{ index: 0, delta: { content }, finish_reason: finish }],
    })
    const crew = await scriptedTeam({
      alice: (_request, n) =>
        n === 0
          ? {
              chunks: (async function* () {
                yield piece('The first half, ')
                await rest.opened
                yield piece('the second half.', 'stop')
              })(),
            }
          : 'And this.',
    })
    await crew.up()
    const at = terminal(['chat', 'alice', '--root', crew.root])
    await at.shows(/you> /)
    at.type('One?\n')
    await at.shows(/The first half, /)
    at.type('Two?\n')
    await at.shows(/alice is busy/)
    rest.open()
    await at.shows(/alice[^\n]*\r\n {2}the second half\./)
    await at.shows(/And this\./)
    at.type('\n')
    expect(await at.ended()).toBe(0)
    expect(at.shown().match(/The first half/g)).toHaveLength(1)
    expect(at.shown().match(/the second half/g)).toHaveLength(1)
  })

  test('team chat: n ends it; what waits for an answer is not waited for', async () => {
    const never = gate()
    const crew = await scriptedTeam({ alice: () => never.opened.then(() => 'Late.') })
    await crew.up()
    const at = terminal(['chat', 'alice', '--root', crew.root])
    await at.shows(/you> /)
    at.type('Hello?\n')
    at.type('n\n')
    expect(await at.ended()).toBe(0)
    never.open()
    expect((await inboxOf(crew.root, 'alice')).items).toHaveLength(1)
  })

  test('team chat: Ctrl-C and Ctrl-D end it, and the daemon goes on', async () => {
    const crew = await scriptedTeam({ alice: () => 'Yes.' })
    const up = await crew.up()
    for (const [key, exit] of [
      ['\x03', 130],
      ['\x04', 0],
    ] as const) {
      const at = terminal(['chat', 'alice', '--root', crew.root])
      await at.shows(/you> /)
      at.type(key)
      expect([key, await at.ended()]).toEqual([key, exit])
      expect(at.shown()).not.toMatch(/\n\s+at |Error/)
    }
    expect(up.exitCode).toBeNull()
    expect(await teamOk(['status', '--root', crew.root])).toContain('running, pid')
  })

  test('team replay: Enter goes on by a step, q ends, and so do Ctrl-D and Ctrl-C', async () => {
    const root = await withSession()
    const all = await teamOk(['replay', 'alice', '--root', root])
    expect(all).toMatch(/First\.[\s\S]*Second\./)
    const stepped = terminal(['replay', 'alice', '--root', root])
    let steps = 0
    for (let end = false; !end; steps++) {
      const before = stepped.shown().length
      const over = stepped.ended().then(() => true)
      stepped.type('\n')
      end = await Promise.race([over, stepped.shows(new RegExp(`^[\\s\\S]{${before + 3},}`)).then(() => false)])
      if (steps > 100) throw new Error('it does not end')
    }
    expect(stepped.shown()).toMatch(/First\.[\s\S]*Second\./)
    expect(steps).toBeGreaterThan(3)
    for (const [keys, exit] of [
      ['q\n', 0],
      ['\x04', 0],
      ['\x03', 130],
    ] as const) {
      const at = terminal(['replay', 'alice', '--root', root])
      await at.shows(/\S/)
      at.type(keys)
      expect([keys, await at.ended()]).toEqual([keys, exit])
      expect(at.shown()).not.toMatch(/Second\.|\n\s+at /)
    }
  })

  test('colours on a terminal, none with NO_COLOR or --no-color', async () => {
    const root = teamRoot()
    const shown = async (args: string[], env = {}) => {
      const at = terminal([...args, '--root', root], env)
      expect(await at.ended()).toBe(0)
      return at.shown()
    }
    expect(await shown(['status'])).toContain(code)
    for (const args of [['status'], ['task', 'list'], ['prefix'], ['requests']])
      expect(await shown(args, { NO_COLOR: '1' })).not.toContain(code)
    expect(await shown(['status', '--no-color'])).not.toContain(code)
    expect(await shown(['status', '--json'])).not.toContain(code)
  })
})

test('in a pipe no command that reads says anything with escape codes; with FORCE_COLOR it does, but never in --json', async () => {
  const root = await withSession()
  mkdirSync(join(root, '.tasks', 'x'), { recursive: true })
  writeFileSync(join(root, '.tasks', 'bad.json'), '{')
  const words: Record<string, string[]> = {
    'task show': ['1'],
    replay: ['alice'],
    inbox: ['alice'],
    diff: ['1'],
    prefix: [],
  }
  const changing = ['demo', 'down', 'land', 'plan', 'send', 'task add']
  const reading = commandTable(await allFamilies(), {} as Cli)
    .filter(({ path, options }) => options.some(({ flags }) => flags.includes('--json')) && !changing.includes(path))
    .map(({ path }) => [...path.split(' '), ...(words[path] ?? [])])
  expect(reading.length).toBeGreaterThan(10)
  let coloured = 0
  for (const args of reading) {
    const at = { cwd: root }
    const forced = { ...at, env: { FORCE_COLOR: '1' } }
    const [plain, json, loud, both] = await Promise.all([
      team(args, at),
      team([...args, '--json'], forced),
      team(args, forced),
      team(args, { ...at, env: { FORCE_COLOR: '1', NO_COLOR: '1' } }),
    ])
    for (const ran of [plain, json, both]) expect([args, ran.stdout.includes(code)]).toEqual([args, false])
    for (const ran of [plain, both]) expect([args, ran.stderr.includes(code)]).toEqual([args, false])
    if (loud.stdout.includes(code)) coloured++
  }
  expect(coloured).toBeGreaterThan(3)
})
