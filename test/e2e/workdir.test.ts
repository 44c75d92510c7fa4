import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import type { Reply, ScriptedRequest } from '../../src/model/scripted.ts'
import { teamOk, tempFolder, until } from '../support/cli.ts'
import { call, silence, sinceTask } from '../support/daemon.ts'
import { ask, heard, killed, quiet, type Script, type ScriptedTeam, scriptedTeam } from '../support/scripted-team.ts'

/** The seven questions that the workdir protocol is accepted by, asked of a running team. The model is played. */

const put = (path: string, text: string): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}
const sales = 'region,amount\nnorth,1200\nsouth,345\neast,78\n'
const skill = '---\nname: tidy\ndescription: How to tidy up\n---\n# Tidy\nBODY-OF-TIDY: sweep first.\n'

/** A team whose workspace is a folder beside the root, with data, a skill and rules; commands are not asked for. */
const workdir = async (alice: Script, more: object = {}): Promise<ScriptedTeam & { home: string }> => {
  const outside = tempFolder()
  put(join(outside, 'work', 'readme.txt'), 'the work\n')
  put(join(outside, 'sales.csv'), sales)
  const crew = await scriptedTeam(
    { alice },
    {
      workspace: join(outside, 'work'),
      data: [join(outside, 'sales.csv')],
      permissions: { allow: ['*', '* *'] },
      ...more,
    },
  )
  put(join(crew.root, 'team', 'AGENTS.md'), 'Be kind.\n')
  put(join(crew.root, 'team', 'skills', 'tidy', 'SKILL.md'), skill)
  return { ...crew, home: join(crew.root, 'team', 'alice') }
}

/** Makes these calls one after the other in a task, then claims it done; what was answered is in `results`. */
const steps =
  (calls: readonly Reply[], summary: (results: readonly { name: string; text: string }[]) => string = () => 'done') =>
  (request: ScriptedRequest): Reply => {
    const at = sinceTask(request)
    if (!at) return 'Read.'
    const next = calls[at.results.length]
    if (next) return next
    if (at.results.length === calls.length) return call('task', { action: 'complete', summary: summary(at.results) })
    return 'Ended.'
  }

const done = async (crew: ScriptedTeam, id = '1'): Promise<void> => {
  await until(async () => {
    const { task } = await ask(crew.root, 'task.get', { id })
    return task.status === 'completed' || task.status === 'failed'
  })
  await quiet(crew.root, 'alice')
}
const resultsOf = (crew: ScriptedTeam): { name: string; text: string }[] =>
  crew.requests('alice').reduce<{ name: string; text: string }[]>((most, request) => {
    const results = sinceTask(request)?.results ?? []
    return results.length > most.length ? results : most
  }, [])
const asLines = (text: string): string[] => text.split('\n')

test('workdir 1: a fresh task is begun with ls, which shows every mount and what may be done there', async () => {
  const crew = await workdir(steps([call('ls', {}), call('ls', { path: 'data' }), call('ls', { path: 'skills' })]))
  await crew.up()
  await teamOk(['task', 'add', 'Look', '--root', crew.root])
  await done(crew)
  const first = crew.requests('alice').find(request => sinceTask(request)?.results.length === 0)
  expect(first?.messages[0]?.content).toContain('Begin it with ls.')
  const [top, data, skills] = resultsOf(crew)
  expect(asLines(top?.text ?? '')).toEqual([
    `. (your view; for commands it is at ${crew.home}), 6 entries`,
    'TASK.md  read',
    'NOTES.md  append',
    'skills/  read',
    'data/  read',
    'out/  write',
    'repo/  write',
  ])
  expect(data?.text).toMatch(/^data, 1 entry\nsales\.csv/)
  expect(skills?.text).toMatch(/^skills, 1 entry\ntidy/)
})

test('workdir 2: the body of a SKILL.md is in no request until it is read, and in all that follow then', async () => {
  const looks = [
    call('ls', {}),
    call('ls', { path: 'skills/tidy' }),
    call('read_file', { path: 'TASK.md' }),
    call('grep', { pattern: 'sales' }),
  ]
  const crew = await workdir(steps([...looks, call('read_file', { path: 'skills/tidy/SKILL.md' })]))
  await crew.up()
  await teamOk(['task', 'add', 'Look', '--root', crew.root])
  await done(crew)
  const bodies = crew.server.bodies.map(body => [body.includes('How to tidy up'), body.includes('BODY-OF-TIDY')])
  expect(bodies.slice(0, looks.length + 1)).toEqual(Array.from({ length: looks.length + 1 }, () => [true, false]))
  expect(bodies.length).toBeGreaterThan(looks.length + 1)
  for (const body of bodies.slice(looks.length + 1)) expect(body).toEqual([true, true])
})

test('workdir 3: the bytes before the conversation are equal in turn 1, in turn 8 and after a restart', async () => {
  const crew = await workdir((_request, n) => `Turn ${n + 1}.`)
  const turn = async (): Promise<void> => {
    const before = crew.requests('alice').length
    await ask(crew.root, 'message.send', { to: 'alice', content: 'go on' })
    await until(() => crew.requests('alice').length > before)
    await quiet(crew.root, 'alice')
  }
  const daemon = await crew.up()
  for (let n = 0; n < 8; n++) await turn()
  await killed(daemon)
  await crew.up()
  await turn()
  const prefix = (body = ''): string => body.slice(0, body.indexOf('{"role":"user"'))
  const { bodies } = crew.server
  expect(prefix(bodies[0]).length).toBeGreaterThan(2000)
  expect(prefix(bodies[0])).toMatch(/"tools":\[.*"role":"system"/)
  for (const n of [1, 7, 8]) expect(prefix(bodies[n]), `turn ${n + 1}`).toBe(prefix(bodies[0]))
})

test('workdir 4: what is longer than 20 lines stands in out/, and replies are short and carry its path', async () => {
  const pathIn = (text = ''): string => /out\/[\w./-]+/.exec(text)?.[0] ?? 'no path'
  const crew = await workdir(
    steps(
      [call('bash', { command: 'seq 1 30' }), call('bash', { command: 'seq 1 9000' })],
      results => `Counted: ${results.map(({ text }) => pathIn(text)).join(' and ')}`,
    ),
  )
  await crew.up()
  await teamOk(['task', 'add', 'Count', '--root', crew.root])
  await done(crew)
  const [short, long] = resultsOf(crew)
  expect(short?.text).toMatch(/^exit 0 in .* s, 30 lines of output, all of it in out\/command-\w+\.txt\n1\n/)
  expect(long?.text).toMatch(/^exit 0 in .* s, \d+ bytes of output, all of it in out\/command-\w+\.txt\n1\n/)
  expect(long?.text).toMatch(/\n\[… \d+ bytes left out …\]\n[\s\S]*\n9000$/)
  const counted = (text = ''): number[] =>
    asLines(readFileSync(join(crew.home, pathIn(text)), 'utf8').trim()).map(Number)
  expect(counted(short?.text)).toEqual(Array.from({ length: 30 }, (_, n) => n + 1))
  expect(counted(long?.text)).toHaveLength(9000)
  const { task } = await ask(crew.root, 'task.get', { id: '1' })
  expect(asLines(task.result?.summary ?? '')).toHaveLength(1)
  expect(existsSync(join(crew.home, pathIn(task.result?.summary)))).toBe(true)
})

test('workdir 5: each number in out/ is found again in the data that it came from, which nobody may write to', async () => {
  const numbers = (text: string): string[] => text.match(/\b\d{2,}\b/g) ?? []
  const crew = await workdir(request => {
    const at = sinceTask(request)
    if (!at) return 'Read.'
    const [look, table, report, ...rest] = at.results
    const home = /for commands it is at (\S+)\)/.exec(look?.text ?? '')?.[1] ?? ''
    if (!look) return call('ls', {})
    if (!table) return call('bash', { command: `sort -t, -k2n ${home}/data/sales.csv` })
    // It knows no number but those that it was shown.
    if (!report)
      return call('write_file', {
        path: 'out/report.md',
        content: numbers(table.text.split('\n').slice(1).join('\n')).join(' and '),
      })
    if (rest.length === 0) return call('write_file', { path: 'data/sales.csv', content: 'north,1\n' })
    return rest.length === 1 ? call('task', { action: 'complete', summary: 'see out/report.md' }) : 'Ended.'
  })
  await crew.up()
  await teamOk(['task', 'add', 'Report', '--root', crew.root])
  await done(crew)
  const report = readFileSync(join(crew.home, 'out', 'report.md'), 'utf8')
  expect(numbers(report)).toEqual(['78', '345', '1200'])
  for (const number of numbers(report)) expect(numbers(sales)).toContain(number)
  expect(resultsOf(crew)[3]?.text).toMatch(/^error: data\/sales\.csv is read-only/)
  expect(readFileSync(join(crew.home, 'data', 'sales.csv'), 'utf8')).toBe(sales)
})

test('workdir 6: a new session that is told only to continue goes on from what the files say', async () => {
  /** Knows nothing but what its own calls showed it in this conversation. */
  const worker: Script = async request => {
    const said = request.messages.flatMap(message => (message.role === 'tool' ? [message.content ?? ''] : []))
    const shown = (file: string): string | undefined => said.find(text => text.startsWith(`${file}, `))
    if (!heard(request).includes('continue') && !heard(request).includes('<task ')) return 'Read.'
    if (!said.some(text => text.startsWith('. (your view'))) return call('ls', {})
    const task = shown('TASK.md')
    if (task === undefined) return call('read_file', { path: 'TASK.md' })
    const notes = shown('NOTES.md')
    if (notes === undefined) return call('read_file', { path: 'NOTES.md' })
    const parts = Number(/write (\d+) parts/.exec(task)?.[1])
    const before = notes.match(/part \d+ is written/g)?.length ?? 0
    const written = said.filter(text => text.startsWith('wrote out/')).length
    const noted = said.filter(text => /^added \d+ bytes to NOTES\.md/.test(text)).length
    if (written > noted)
      return call('write_file', { path: 'NOTES.md', content: `part ${before + written} is written\n` })
    const next = before + written + 1
    if (next === 3 && before === 0) return await silence()
    if (next <= parts) return call('write_file', { path: `out/part-${next}.txt`, content: `part ${next}\n` })
    if (said.some(text => text.includes('claimed done') || text.includes('unverified'))) return 'Ended.'
    return call('task', { action: 'complete', summary: `${parts} parts in out/` })
  }
  const crew = await workdir(worker)
  const first = await crew.up()
  await teamOk(['task', 'add', 'Parts', '--description', 'write 4 parts', '--root', crew.root])
  const notes = (): string => readFileSync(join(crew.home, 'NOTES.md'), 'utf8')
  await until(() => existsSync(join(crew.home, 'NOTES.md')) && notes().includes('part 2 is written'))
  await killed(first)
  rmSync(join(crew.root, '.team', 'sessions'), { recursive: true })
  const before = crew.requests('alice').length
  await crew.up()
  await ask(crew.root, 'message.send', { to: 'alice', content: 'continue' })
  await done(crew)
  const after = crew.requests('alice').slice(before)
  expect(after.some(request => heard(request).includes('continue'))).toBe(true)
  for (const request of after) expect(JSON.stringify(request)).not.toContain('wrote out/part-1')
  expect(readdirSync(join(crew.home, 'out')).sort()).toEqual(['part-1.txt', 'part-2.txt', 'part-3.txt', 'part-4.txt'])
  expect(notes().match(/part \d+ is written/g)).toEqual([1, 2, 3, 4].map(n => `part ${n} is written`))
  expect((await ask(crew.root, 'task.get', { id: '1' })).task.result?.summary).toBe('4 parts in out/')
  expect(readFileSync(join(crew.home, 'TASK.md'), 'utf8')).toMatch(/\n---\n\nEnded \S+: /)
})

test('workdir 7: ../.env is an error to every file tool, by any way to it, and nothing of it is told', async () => {
  const places = ['../.env', '../../.env', 'repo/../../.env', 'out/../../../.env']
  const tries = places.flatMap(path => [
    call('read_file', { path }),
    call('write_file', { path, content: 'mine' }),
    call('edit_file', { path, edits: [{ old_text: 'SECRET', new_text: 'mine' }] }),
    call('grep', { pattern: 'SECRET', path }),
    call('ls', { path }),
  ])
  const crew = await workdir(
    steps([...tries, call('grep', { pattern: 'SECRET' }), call('read_file', { path: '/etc/passwd' })]),
  )
  for (const place of [join(crew.root, '.env'), join(crew.root, 'team', '.env')]) put(place, 'SECRET=1\n')
  await crew.up()
  await teamOk(['task', 'add', 'Pry', '--root', crew.root])
  await done(crew)
  const results = resultsOf(crew)
  expect(results.length).toBeGreaterThanOrEqual(tries.length + 2)
  for (const { name, text } of results.slice(0, tries.length))
    expect(text, name).toMatch(/^error: .* is outside the workspace view; .*there are: /)
  expect(results[tries.length]?.text).toMatch(/^no hits/)
  expect(results[tries.length + 1]?.text).toMatch(/^error: .*outside the workspace view/)
  for (const { text } of results) expect(text).not.toContain('SECRET=1')
  expect(readFileSync(join(crew.root, '.env'), 'utf8')).toBe('SECRET=1\n')
  expect(readFileSync(join(crew.root, 'team', '.env'), 'utf8')).toBe('SECRET=1\n')
})
