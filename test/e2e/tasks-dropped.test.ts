import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Status, TaskShown } from '../../src/protocol/rpc.ts'
import { team, teamOk, until } from '../support/cli.ts'
import { initRepo } from '../support/repo.ts'
import {
  ask,
  gate,
  heard,
  inboxOf,
  journal,
  killed,
  quiet,
  type Script,
  scriptedTeam,
  status,
} from '../support/scripted-team.ts'

const drop = (root: string, name: string, value: unknown): void => {
  mkdirSync(join(root, '.tasks'), { recursive: true })
  writeFileSync(
    join(root, '.tasks', name),
    typeof value === 'string' || value instanceof Buffer ? value : JSON.stringify(value),
  )
}
const taskFile = (root: string, id: string) => join(root, '.tasks', `task_${id}.json`)
const read = (root: string, id: string) => JSON.parse(readFileSync(taskFile(root, id), 'utf8')) as TaskShown
const titled = (now: Status, title: string) => now.tasks.find(task => task.title === title)
const settled = async (root: string, look: (now: Status) => boolean) => {
  let last: Status | undefined
  try {
    return await until(async () => {
      last = await status(root)
      return look(last) && last
    })
  } catch (cause) {
    throw new Error(`it stands at ${JSON.stringify([last?.problems, last?.tasks], null, 1)}`, { cause })
  }
}
const dropped = (root: string) => readdirSync(join(root, '.tasks', 'dropped')).sort()
/** Does what it is given, by a word in the title. */
const worker: Script = request => {
  const said = request.messages.at(-1)?.content ?? ''
  if (/^task \S+ is|^error/.test(said)) return 'Done.'
  const action = said.includes('# Fail') ? 'fail' : 'complete'
  return said.includes('<task') ? { calls: [{ name: 'task', args: { action, summary: `${action} it` } }] } : 'Read.'
}
/** Works only on what is assigned to it. */
const idle = (name: string): { name: string } => ({ name, ...{ autoClaim: false } })
const nobody = { teammates: [idle('alice')] }

describe('the graph', () => {
  test('B01 cycles by tools are refused and named; by drops and by hand they are flagged, and other tasks run', async () => {
    const create = (title: string, ...depends_on: string[]) => ({
      name: 'task',
      args: { action: 'create', title, ...(depends_on.length > 0 ? { depends_on } : {}) },
    })
    const { root, requests, up } = await scriptedTeam(
      {
        alice: (_, n) =>
          n === 0 ? { calls: [create('A', 'B'), create('B', 'C'), create('C', 'A'), create('D', 'D')] } : 'Planned.',
        bob: worker,
      },
      { teammates: [idle('alice'), { name: 'bob' }] },
    )
    await up()
    await teamOk(['send', 'alice', 'plan', '--root', root])
    await quiet(root, 'alice')
    const results = requests('alice')
      .at(-1)
      ?.messages.filter(message => message.role === 'tool')
      .map(message => message.content)
    expect(results?.slice(0, 2)).toEqual([expect.stringMatching(/^created 1/), expect.stringMatching(/^created 2/)])
    expect(results?.[2]).toMatch(/^error: .*"C" → 1 "A" → 2 "B" → .*"C"/)
    expect(results?.[3]).toMatch(/^error: .*"D" → /)
    drop(root, 'one.json', { title: 'One' })
    drop(root, 'loop.json', [
      { title: 'X', blockedBy: ['Y'] },
      { title: 'Y', blockedBy: ['X'] },
    ])
    await settled(root, now => now.problems.some(text => text.includes('loop.json') && text.includes('"X"')))
    // B waits for C; made by hand, B also waits for A, which waits for B.
    const edited = { ...read(root, '2'), blockedBy: ['C', '1'] }
    writeFileSync(taskFile(root, '2'), JSON.stringify(edited))
    const now = await settled(root, at =>
      at.problems.some(text => /task_2.*wait for itself: .*1 → 2|task_2.*2 → 1 → 2/.test(text)),
    )
    expect(titled(now, 'B')?.dependsOn).toEqual(['C'])
    await settled(root, at => titled(at, 'One')?.status === 'completed')
    const entries = (await journal(root)).length
    drop(root, 'two.json', { title: 'Two' })
    await settled(root, at => titled(at, 'Two')?.status === 'completed')
    await quiet(root, 'bob')
    // No busy loop: what one more task needs, and no more.
    expect((await journal(root)).length - entries).toBeLessThan(40)
    const kept = readdirSync(join(root, '.tasks')).filter(name => name.includes('.rejected-'))
    expect(kept).toHaveLength(1)
    rmSync(join(root, '.tasks', kept[0] ?? ''))
    await settled(root, at => !at.problems.some(text => text.includes('task_2')))
  })

  test('B03 what waits for a failed task stays blocked, is told once, and is not scheduled again and again', async () => {
    const { root, up } = await scriptedTeam({ alice: worker })
    drop(root, 'a.json', [
      { title: 'Fail' },
      { title: 'Then', blockedBy: ['Fail'] },
      { title: 'Later', blockedBy: ['Then'] },
    ])
    let daemon = await up()
    const now = await settled(root, at => titled(at, 'Fail')?.status === 'failed')
    expect([titled(now, 'Then')?.shown, titled(now, 'Then')?.why]).toEqual(['blocked', expect.stringContaining('1')])
    expect(now.problems).toContainEqual(expect.stringContaining('task 2 is blocked by 1, which failed'))
    await quiet(root, 'alice')
    await killed(daemon)
    daemon = await up()
    await quiet(root, 'alice')
    const before = (await journal(root)).filter(entry => entry.event.startsWith('task.')).length
    drop(root, 'z.json', { title: 'Other' })
    await settled(root, at => titled(at, 'Other')?.status === 'completed')
    const events = (await journal(root)).filter(entry => entry.event.startsWith('task.'))
    expect(events.slice(before).every(entry => entry.info?.task === undefined || entry.info.task === '4')).toBe(true)
    const told = (await inboxOf(root, 'user')).items.filter(item =>
      item.stored.message.content.includes('Task 1 "Fail" failed'),
    )
    expect(told).toHaveLength(1)
    await teamOk(['task', 'cancel', '1', '--root', root])
    expect((await status(root)).problems).toContainEqual(expect.stringContaining('blocked by 1, which was cancelled'))
  })

  test('B05 five teammates who all claim one task at once: it has one owner, the others are told who and do nothing', async () => {
    const names = ['ann', 'ben', 'cam', 'dan', 'eve']
    const hold = gate()
    const script: Script = async (request, n) => {
      const last = request.messages.at(-1)?.content ?? ''
      if (last.includes('<task')) {
        await hold.opened
        return { calls: [{ name: 'task', args: { action: 'complete', summary: 'mine' } }] }
      }
      if (last.includes('claim it'))
        return { calls: Array.from({ length: 20 }, () => ({ name: 'task', args: { action: 'claim', id: '1' } })) }
      return n > 5 ? 'Done.' : 'Read.'
    }
    const { root, requests, up } = await scriptedTeam(Object.fromEntries(names.map(name => [name, script])))
    await up()
    drop(root, 'one.json', { title: 'Wanted by all' })
    const now = await settled(root, at => at.tasks[0]?.status === 'in_progress')
    const owner = now.tasks[0]?.owner ?? ''
    const losers = names.filter(name => name !== owner)
    await Promise.all(losers.map(name => ask(root, 'message.send', { to: name, content: 'claim it' })))
    await quiet(root, ...losers)
    for (const name of losers) {
      const answers =
        requests(name)
          .at(-1)
          ?.messages.filter(message => message.role === 'tool') ?? []
      expect(answers).toHaveLength(20)
      for (const answer of answers) expect(answer.content).toContain(`error: task 1 is owned by ${owner}`)
      expect(requests(name).some(request => heard(request).includes('<task id='))).toBe(false)
    }
    hold.open()
    await settled(root, at => at.tasks[0]?.status === 'completed')
    for (let i = 0; i < 25; i++) drop(root, `more-${i}.json`, { title: `Round ${i}` })
    await settled(root, at => at.tasks.length === 26 && at.tasks.every(task => task.status === 'completed'))
    const started = (await journal(root)).filter(entry => entry.event === 'task.started').map(entry => entry.info?.task)
    expect(new Set(started).size).toBe(26)
    expect(started).toHaveLength(26)
  })

  test('B11 no id comes back, however tasks and their files are removed, over restarts and kills', async () => {
    const { root, up } = await scriptedTeam({}, nobody)
    let daemon = await up()
    const add = async (title: string, ...more: string[]) =>
      /task (\S+):/.exec(await teamOk(['task', 'add', title, ...more, '--root', root]))?.[1]
    expect([await add('One'), await add('Two'), await add('Three', '--after', '2')]).toEqual(['1', '2', '3'])
    await teamOk(['task', 'cancel', '1', '2', '--root', root])
    for (const id of ['1', '2']) rmSync(taskFile(root, id))
    expect(await add('Four')).toBe('4')
    await killed(daemon)
    rmSync(taskFile(root, '4'), { force: true })
    expect(await add('Five')).toBe('5')
    daemon = await up()
    expect(await add('Six')).toBe('6')
    drop(root, 'task_40.json', { id: 40, title: 'Forty' })
    await settled(root, now => now.tasks.some(task => task.id === '40'))
    expect(await add('After forty')).toBe('41')
    expect(titled(await status(root), 'Three')?.dependsOn).toEqual(['2'])
  })

  test('B13 uncommitted files keep a task from being done, and one without commits is told as unverified, not merged', async () => {
    const results: string[] = []
    const { root, up } = await scriptedTeam(
      {
        alice: (request, n) => {
          const last = request.messages.at(-1)?.content ?? ''
          results.push(last)
          const complete = { calls: [{ name: 'task', args: { action: 'complete', summary: 'done' } }] }
          if (n === 0) return { calls: [{ name: 'write_file', args: { path: 'repo/new.txt', content: 'x\n' } }] }
          if (n === 1) return complete
          if (n === 2) return { calls: [{ name: 'bash', args: { command: 'rm new.txt' } }] }
          return n === 3 ? complete : 'Done.'
        },
      },
      { workspace: '../code', permissions: { allow: ['rm *'] } },
    )
    initRepo(join(root, '..', 'code'))
    await up()
    await teamOk(['task', 'add', 'Change something', '--root', root])
    const now = await settled(root, at => at.tasks[0]?.status === 'completed')
    await quiet(root, 'alice')
    expect(results.join('\n')).toMatch(/error: uncommitted files in repo\/ \(1\)[\s\S]*new\.txt/)
    expect(results.join('\n')).toMatch(/nothing of this will be merged/)
    expect([now.tasks[0]?.shown, now.tasks[0]?.result?.outcome]).toEqual(['unverified', 'unverified'])
    expect(now.trunk?.ahead).toBe(0)
    expect((await journal(root)).filter(entry => /merge/.test(entry.event))).toEqual([])
    expect(await teamOk(['status', '--root', root])).toContain('unverified')
  })
})

describe('drops', () => {
  test('B07 a task in hand whose file is cut, emptied and rewritten in halves keeps its owner and its text', async () => {
    const hold = gate()
    const { root, up } = await scriptedTeam({
      alice: async request => {
        await hold.opened
        return worker(request, 0)
      },
    })
    await up()
    drop(root, 'a.json', { title: 'Held', description: 'all of it' })
    await settled(root, now => titled(now, 'Held')?.status === 'in_progress')
    await until(() => existsSync(taskFile(root, '1')) && read(root, '1').status === 'in_progress')
    for (let round = 0; round < 3; round++) {
      const whole = `${JSON.stringify({ ...read(root, '1'), priority: round + 1 }, null, 2)}\n`
      if (round > 0) {
        truncateSync(taskFile(root, '1'), 0)
        await new Promise(resolve => setTimeout(resolve, 100))
      }
      writeFileSync(taskFile(root, '1'), whole.slice(0, whole.length / 2))
      await new Promise(resolve => setTimeout(resolve, 300))
      writeFileSync(taskFile(root, '1'), whole)
      await settled(root, now => now.tasks[0]?.priority === round + 1)
      expect((await status(root)).tasks).toMatchObject([
        { owner: 'alice', status: 'in_progress', description: 'all of it' },
      ])
    }
    expect(readdirSync(join(root, '.tasks')).filter(name => /rejected|error/.test(name))).toEqual([])
    hold.open()
    await settled(root, now => now.tasks[0]?.status === 'completed')
  })

  test('B09 byte order marks and CRLF, in JSON, Markdown and YAML, are no fault', async () => {
    const { root, up } = await scriptedTeam({}, nobody)
    await up()
    drop(root, 'a.json', '\ufeff{\r\n  "title": "From JSON",\r\n  "description": "one\\ntwo"\r\n}\r\n')
    drop(root, 'b.md', '\ufeff---\r\ntitle: From Markdown\r\npriority: 3\r\n---\r\n\r\nBody\r\n\r\n- two\r\n')
    drop(root, 'c.yaml', '\ufefftitle: From YAML\r\ntags:\r\n  - a\r\n')
    drop(root, 'd.json', Buffer.from('\ufeff{"title":"From Notepad"}', 'utf16le'))
    const now = await settled(root, at => at.tasks.length === 4)
    expect(titled(now, 'From Markdown')).toMatchObject({ priority: 3, description: 'Body\n\n- two' })
    expect(titled(now, 'From YAML')?.tags).toEqual(['a'])
    expect(now.problems.filter(text => text.includes('.tasks'))).toEqual([])
    // A task is there a moment before its file is out of the way.
    await until(() => dropped(root).length === 4)
    expect(dropped(root)).toEqual(['a.json', 'b.md', 'c.yaml', 'd.json'])
  })

  test('what the guides to such teams write as config.json and task_1.json runs unchanged', async () => {
    const { root, server, requests, up } = await scriptedTeam({ 'frontend-agent': worker })
    writeFileSync(
      join(root, 'config.json'),
      '{"teammates":[{"name":"frontend-agent","role":"前端开发","skills":["react","typescript","css"],"system_prompt":"你是一名前端工程师。"}]}',
    )
    const guide = {
      id: 1,
      title: '实现登录页面',
      description: '使用 React',
      status: 'pending',
      blockedBy: [],
      createdAt: '2026-05-14T10:00:00Z',
    }
    drop(root, 'task_1.json', guide)
    drop(root, 'task_2.json', { ...guide, id: 2, title: '写测试', blockedBy: [1] })
    drop(root, 'task_3.json', { ...guide, id: '3', title: '部署', blockedBy: ['2', 1] })
    // As the guide has it there is no model and no sandbox named: nothing is thought, so the tasks fail, but they load.
    expect((await team(['task', 'list', '--root', root])).code).toBe(0)
    writeFileSync(
      join(root, 'config.json'),
      JSON.stringify({
        ...JSON.parse(readFileSync(join(root, 'config.json'), 'utf8')),
        sandbox: 'off',
        model: { provider: 'scripted', baseURL: server.baseURL, name: 'frontend-agent' },
      }),
    )
    await up()
    const now = await settled(root, at => at.tasks.length === 3 && at.tasks.every(task => task.status === 'completed'))
    expect(now.tasks.map(task => [task.id, task.title, task.dependsOn, task.createdAt])).toEqual([
      ['1', '实现登录页面', [], '2026-05-14T10:00:00.000Z'],
      ['2', '写测试', ['1'], '2026-05-14T10:00:00.000Z'],
      ['3', '部署', ['2', '1'], '2026-05-14T10:00:00.000Z'],
    ])
    expect(requests('frontend-agent')[0]?.messages[0]?.content).toMatch(/你是一名前端工程师[\s\S]*|前端开发/)
    await until(() => read(root, '3').status === 'completed')
    expect(read(root, '3')).toMatchObject({ id: '3', blockedBy: [], status: 'completed' })
  })

  test('odd things in the folder: each is taken, refused by name or left alone, and nothing else suffers', async () => {
    const { root, up } = await scriptedTeam({}, nobody)
    const outside = join(root, '..', 'outside.json')
    writeFileSync(outside, '{"title":"From outside"}')
    const daemon = await up()
    const tasks = join(root, '.tasks')
    mkdirSync(join(tasks, 'folder.json'))
    mkdirSync(join(tasks, 'task_77.json'))
    symlinkSync(outside, join(tasks, 'outside.json'))
    mkdirSync(join(root, 'plans'))
    writeFileSync(join(root, 'plans', 'linked.json'), '{"title":"By a link"}')
    symlinkSync('../plans/linked.json', join(tasks, 'link.json'))
    symlinkSync('/nowhere/at/all.json', join(tasks, 'dangling.json'))
    symlinkSync('round.json', join(tasks, 'round.json'))
    drop(root, 'latin.json', Buffer.from('{"title":"caf\xe9"}', 'latin1'))
    drop(root, 'anchors.yaml', 'base: &b {title: x}\n')
    drop(root, 'anchors-2.yml', '- &a\n  title: First\n  tags: [t]\n- <<: *a\n  title: Second\n')
    drop(
      root,
      'bomb.yaml',
      `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghij'
        .split('')
        .map((k, i) => `${k}: &${k} [${Array(9).fill(`*${'abcdefghij'[i]}`).join(',')}]`)
        .join('\n')}\ntitle: Bomb\n`,
    )
    drop(root, 'task_x.json', { title: 'Has the id x' })
    drop(root, 'task_..json', { title: 'Dots' })
    drop(root, 'proto.json', '{"title":"Proto","__proto__":{"title":"no"}}')
    drop(root, 'lines.json', { title: 'First\nSecond\r\n\tThird\u2028Fourth\u0007' })
    drop(root, 'empty.json', '')
    drop(root, 'scalar.json', '42')
    drop(root, 'nested.json', [[{ title: 'deep' }]])
    drop(root, 'UPPER.JSON', { title: 'Upper' })
    drop(root, '名前.json', { title: 'Unicode name' })
    drop(root, 'a b"c\'.json', { title: 'Quoted name' })
    drop(root, `${'long'.repeat(60)}.json`, { title: 'Long name' })
    drop(root, 'code.md', '---js\n{ title: process.exit(3) }\n---\nbody')
    drop(root, 'done.json', { title: 'Done already', status: 'completed' })
    drop(root, 'owned.json', { title: 'Owned', owner: 'alice' })
    drop(root, 'stranger.json', { title: 'For nobody', assignee: 'zoe' })
    drop(root, 'typo.json', { titel: 'Typo' })
    drop(root, 'two.json', '{"title":"a"}{"title":"b"}')
    drop(
      root,
      'many.json',
      Array.from({ length: 500 }, (_, i) => ({
        title: `Many ${i}`,
        ...(i > 0 ? { blockedBy: [`Many ${i - 1}`] } : {}),
      })),
    )
    drop(root, 'notes.txt', 'not a task')
    drop(root, 'idea.markdown', '# An idea')
    drop(root, 'README.md', '# Read me')
    await settled(root, at => at.tasks.filter(task => task.title.startsWith('Many')).length === 500)
    const refused = [
      'latin',
      'anchors.yaml',
      'bomb',
      'scalar',
      'nested',
      'code.md',
      'done',
      'owned',
      'typo',
      'two.json',
      'empty',
      'outside.json',
      'dangling.json',
      'round.json',
      'folder.json',
      'task_77.json',
      'notes.txt',
      'idea.markdown',
    ]
    const now = await settled(root, at => refused.every(name => at.problems.some(text => text.includes(name))))
    const titles = now.tasks.map(task => task.title).filter(title => !title.startsWith('Many'))
    expect(titles).toEqual(
      expect.arrayContaining([
        'First Second Third Fourth',
        'First',
        'Second',
        'By a link',
        'Has the id x',
        'Upper',
        'Unicode name',
        'Quoted name',
        'Long name',
      ]),
    )
    expect(now.tasks.find(task => task.title === 'Has the id x')?.id).toBe('x')
    expect(titled(now, 'Many 499')?.dependsOn).toEqual([titled(now, 'Many 498')?.id])
    expect(titles).not.toContain('From outside')
    for (const task of now.tasks) expect(task.title).not.toMatch(/\p{Cc}/u)
    expect(existsSync(outside)).toBe(true)
    expect(now.problems.filter(text => text.length > 2000)).toEqual([])
    for (const name of ['notes.txt', 'README.md', 'folder.json', 'task_77.json', 'dangling.json', 'round.json'])
      expect(readdirSync(tasks)).toContain(name)
    await killed(daemon)
    await up()
    const again = await status(root)
    expect(again.tasks.map(task => task.title)).toEqual(now.tasks.map(task => task.title))
    await until(() => existsSync(taskFile(root, titled(now, 'Many 499')?.id ?? '')))
    // A refusal is told a person once, restarts or not.
    const told = (await inboxOf(root, 'user')).items.map(item => item.stored.message.content)
    const once = ['typo.json', 'outside.json', 'dangling.json', 'folder.json', 'notes.txt', 'idea.markdown']
    for (const name of once) expect(told.filter(text => text.includes(`.tasks/${name}:`))).toHaveLength(1)
    expect(told.filter(text => text.includes('README'))).toEqual([])
    expect(told.find(text => text.includes('idea.markdown'))).toContain('rename it to idea.md')
    renameSync(join(tasks, 'idea.markdown'), join(tasks, 'idea.md'))
    rmSync(join(tasks, 'notes.txt'))
    await settled(
      root,
      at => titled(at, 'An idea') !== undefined && !at.problems.some(text => /idea\.|notes/.test(text)),
    )
    // Once mended it is taken, and its note is gone.
    drop(root, 'typo.json', { title: 'Typo mended' })
    await settled(
      root,
      at => titled(at, 'Typo mended') !== undefined && !at.problems.some(text => text.includes('typo.json')),
    )
    await until(() => !existsSync(join(tasks, 'typo.json.error.txt')))
  })

  test('hand edits while the task runs: what may be changed is taken, the rest is put back, rapid saves end in the last', async () => {
    const hold = gate()
    const { root, up } = await scriptedTeam({
      alice: async request => {
        await hold.opened
        return worker(request, 0)
      },
    })
    await up()
    drop(root, 'a.json', { title: 'Edited' })
    await settled(root, now => now.tasks[0]?.status === 'in_progress')
    await until(() => existsSync(taskFile(root, '1')) && read(root, '1').status === 'in_progress')
    const opened = read(root, '1')
    for (let i = 1; i <= 20; i++)
      writeFileSync(taskFile(root, '1'), JSON.stringify({ ...opened, description: `save ${i}` }))
    await settled(root, now => now.tasks[0]?.description === 'save 20')
    writeFileSync(
      taskFile(root, '1'),
      JSON.stringify({ ...read(root, '1'), owner: 'bob', status: 'completed', title: 'Retitled' }),
    )
    await settled(
      root,
      now => now.tasks[0]?.title === 'Retitled' && now.problems.some(text => /task_1.*owner/.test(text)),
    )
    expect((await status(root)).tasks).toMatchObject([{ owner: 'alice', status: 'in_progress' }])
    rmSync(taskFile(root, '1'))
    await until(() => existsSync(taskFile(root, '1')))
    appendFileSync(taskFile(root, '1'), '\n\n')
    writeFileSync(taskFile(root, '1'), JSON.stringify({ ...read(root, '1'), status: 'cancelled' }))
    await settled(root, now => now.tasks[0]?.status === 'cancelled')
    hold.open()
    await quiet(root, 'alice')
  })

  test('the daemon is killed at any moment while files are dropped and edited: each drop is one task, no edit is undone', async () => {
    const { root, up } = await scriptedTeam({}, nobody)
    let n = 0
    const edits = new Map<string, number>()
    for (let round = 0; round < 5; round++) {
      const daemon = await up()
      const end = performance.now() + 100 + Math.random() * 500
      while (performance.now() < end) {
        drop(root, `drop-${n}.json`, { title: `Drop ${n}`, ...(n > 0 ? { blockedBy: [`drop-${n - 1}.json`] } : {}) })
        n++
        await new Promise(resolve => setTimeout(resolve, 10))
        const id = String(1 + Math.floor(Math.random() * n))
        if (n % 5 === 0 && existsSync(taskFile(root, id))) {
          const priority = (edits.get(id) ?? 0) + 1
          writeFileSync(taskFile(root, id), JSON.stringify({ ...read(root, id), priority }))
          edits.set(id, priority)
        }
      }
      await killed(daemon)
    }
    await up()
    const now = await settled(root, at => at.tasks.length >= n)
    await until(() => !readdirSync(join(root, '.tasks')).some(name => name.startsWith('drop-')))
    expect(now.tasks.map(task => task.title).sort()).toEqual(Array.from({ length: n }, (_, i) => `Drop ${i}`).sort())
    for (const task of now.tasks) {
      const i = Number(task.title.slice(5))
      expect(task.dependsOn).toEqual(i === 0 ? [] : [titled(now, `Drop ${i - 1}`)?.id])
    }
    const left = (await status(root)).problems.filter(text => text.includes('.tasks'))
    expect(left.join('\n')).toBe('')
    for (const [id, priority] of edits)
      expect([id, (await status(root)).tasks.find(task => task.id === id)?.priority]).toEqual([id, priority])
  })
})
