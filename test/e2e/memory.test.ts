import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { delay } from '../../src/lib/clock.ts'
import { killVariable } from '../../src/lib/points.ts'
import { readEntries } from '../../src/protocol/memory.ts'
import { ended, teamOk, until } from '../support/cli.ts'
import { ask, gate, heard, killed, quiet, type Script, scriptedTeam } from '../support/scripted-team.ts'

const call = (args: object) => ({ name: 'memory', args })
const save = (content: string, category?: string) => call({ action: 'save', content, category })

test('what is remembered is found after kill -9, by a session that begins anew, and by others where it is for the team', async () => {
  let looks: object[] = []
  const script: Script = request => {
    const { role } = request.messages.at(-1) ?? {}
    if (role === 'tool') return 'Done.'
    if (looks.length > 0) return { calls: looks.map(call) }
    return request.model === 'alice'
      ? { calls: [save('The database is called ada.'), save('我们每周五不部署。', 'team/deploy')] }
      : 'Read.'
  }
  const crew = await scriptedTeam({ alice: script, bob: script }, { mode: 'dir' })
  const first = await crew.up()
  await ask(crew.root, 'message.send', { to: 'alice', content: 'note what you know' })
  await quiet(crew.root, 'alice')
  await killed(first)
  expect(readFileSync(join(crew.root, 'team/alice/memory.md'), 'utf8')).toMatch(
    /^## \d{4}-\d\d-\d\dT\S+Z · note\nThe database is called ada\.\n$/,
  )
  expect(readFileSync(join(crew.root, 'team/memory.md'), 'utf8')).toMatch(
    /^## \S+ · team\/deploy · alice\n我们每周五不部署。\n$/,
  )
  // Nothing but the files is left of it.
  rmSync(join(crew.root, '.team', 'sessions'), { recursive: true })
  appendFileSync(join(crew.root, 'team/alice/memory.md'), '\r\n## Hosts\r\nBy hand: ada is at 10.0.0.7')
  looks = [
    { action: 'search', query: 'database' },
    { action: 'search', query: '部署' },
    { action: 'read', category: 'hosts' },
  ]
  await crew.up()
  for (const name of ['alice', 'bob']) {
    await ask(crew.root, 'message.send', { to: name, content: 'what do you know?' })
    await quiet(crew.root, name)
  }
  const [alice, bob] = [heard(crew.requests('alice').at(-1)), heard(crew.requests('bob').at(-1))]
  expect(alice).toMatch(/found 1 entry\n\[own\] \S+ · note\nThe database is called ada\./)
  expect(alice).toContain('[own] no time · Hosts\nBy hand: ada is at 10.0.0.7')
  for (const said of [alice, bob]) expect(said).toMatch(/\[team\] \S+ · team\/deploy · alice\n我们每周五不部署。/)
  // What is alice's own is nobody else's.
  expect(bob).not.toContain('ada')
  expect(await teamOk(['logs', '--root', crew.root])).toMatch(
    /alice.* told the team's memory \(team\/deploy\): 我们每周五不部署。/,
  )
})

test('eight who save for the team at once lose nothing, whatever a person does to the file meanwhile', async () => {
  const names = Array.from({ length: 8 }, (_, i) => `mate-${i}`)
  const together = gate()
  let again = false
  const script: Script = async (request, n) => {
    await together.opened
    if (again) return n > 6 ? 'Done.' : { calls: [save('After it.', 'team')] }
    if (n >= 5) return 'Done.'
    return { calls: [0, 1].map(i => save(`${request.model} saw ${n}.${i}`, 'team')) }
  }
  const crew = await scriptedTeam(Object.fromEntries(names.map(name => [name, script])), { mode: 'dir' })
  const file = join(crew.root, 'team/memory.md')
  mkdirSync(join(crew.root, 'team'), { recursive: true })
  writeFileSync(file, '# What we know\r\n\r\nBy hand.')
  await crew.up()
  for (const name of names) await ask(crew.root, 'message.send', { to: name, content: 'go' })
  await until(() => names.every(name => crew.requests(name).length > 0))
  together.open()
  // As `echo … >> memory.md` does it, while they save.
  for (let i = 0; i < 20; i++) {
    appendFileSync(file, `\n## Hand\nBy hand ${i}\n`)
    await delay(5)
  }
  await quiet(crew.root, ...names)
  // As an editor does it: another file in the place of the one that was.
  writeFileSync(`${file}.new`, `${readFileSync(file, 'utf8')}\n## Hand\nThe last.`)
  renameSync(`${file}.new`, file)
  again = true
  await ask(crew.root, 'message.send', { to: 'mate-0', content: 'once more' })
  await quiet(crew.root, 'mate-0')
  const entries = readEntries(readFileSync(file, 'utf8'))
  const saved = entries.filter(({ who }) => who !== null)
  for (const name of names)
    expect(saved.filter(({ who, content }) => who === name && content.startsWith(`${name} saw `))).toHaveLength(10)
  expect(saved.at(-1)).toMatchObject({ who: 'mate-0', category: 'team', content: 'After it.' })
  expect(entries[0]?.content).toBe('# What we know\n\nBy hand.')
  expect(entries.filter(({ category }) => category === 'Hand').map(({ content }) => content)).toEqual([
    ...Array.from({ length: 20 }, (_, i) => `By hand ${i}`),
    'The last.',
  ])
})

test.each(['memory.write', 'memory.written'])(
  'killed at %s, the entry for the team is asked for again, and stands there once',
  async point => {
    const crew = await scriptedTeam(
      {
        alice: request =>
          heard(request).includes("the team's memory") ? 'Done.' : { calls: [save('v2 is frozen.', 'team')] },
      },
      { mode: 'dir' },
    )
    const file = join(crew.root, 'team/memory.md')
    const child = await crew.up({ [killVariable]: `${point}:1` })
    await ask(crew.root, 'message.send', { to: 'alice', content: 'note that' })
    expect(await ended(child)).toBe('SIGKILL')
    expect(existsSync(file) && readFileSync(file, 'utf8').includes('v2 is frozen.')).toBe(point === 'memory.written')
    await crew.up()
    const answer = await until(() => {
      const said = heard(crew.requests('alice').at(-1))
      return said.includes("the team's memory") && said
    })
    expect(answer).toContain(point === 'memory.written' ? "it is in the team's memory already" : 'saved in')
    await quiet(crew.root, 'alice')
    expect(readEntries(readFileSync(file, 'utf8'))).toMatchObject([{ who: 'alice', content: 'v2 is frozen.' }])
  },
)
