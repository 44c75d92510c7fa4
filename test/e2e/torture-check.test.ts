import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tempFolder } from '../support/cli.ts'
import { check, type Places, type Promised } from '../torture/check.ts'
import type { Entry, Value } from '../torture/journal.ts'
import { type Outcome, torture } from '../torture/world.ts'

// What the checker of the torture finds: on what a real team left, nothing; on a copy of it with one fault, that one.

let healthy: Outcome
beforeAll(async () => {
  healthy = await torture(1, 0, 'git')
}, 120_000)
afterAll(() => rmSync(healthy.ground.folder, { recursive: true, force: true }))

interface Copy extends Places {
  readonly kind: 'git'
}
const copied = (): Copy => {
  const at = tempFolder()
  const copy = { root: join(at, 'root'), repo: join(at, 'repo'), kind: 'git' } as const
  for (const part of ['root', 'repo'] as const) cpSync(healthy.ground[part], copy[part], { recursive: true })
  return copy
}
/** What is found in a copy once `harm` was done to it. */
const found = (harm: (copy: Copy) => unknown, promised: Partial<Promised> = {}): string[] => {
  const copy = copied()
  harm(copy)
  return check(copy, { ...healthy.promised, ...promised })
}

const lines = (file: string): string[] => readFileSync(file, 'utf8').split('\n').slice(0, -1)
const write = (file: string, all: readonly string[]) => writeFileSync(file, all.map(line => `${line}\n`).join(''))

/** Changes the entries of the newest epoch that holds such a one, and numbers everything in it and after it anew. */
const rewrite = (root: string, isMeant: (entry: Entry) => boolean, change: (entry: Entry) => readonly Entry[]) => {
  const folder = join(root, '.team', 'journal')
  const files = readdirSync(folder)
    .filter(name => /^\d{8}\.jsonl$/.test(name))
    .sort()
  let seq = 0
  let isDone = false
  const revs = new Map<string, number>()
  let bytes = 0
  for (const [n, name] of files.entries()) {
    const file = join(folder, name)
    const [header = '', ...entries] = lines(file)
    const out = entries.filter(Boolean).flatMap(line => {
      const entry = JSON.parse(line) as Entry
      const isOne = !isDone && isMeant(entry)
      isDone ||= isOne
      return (isOne ? change(entry) : [entry]).map(each => {
        seq++
        if (!each.put) return JSON.stringify({ ...each, seq })
        const [collection, id, , value] = each.put
        const rev = (revs.get(`${collection}/${id}`) ?? 0) + 1
        revs.set(`${collection}/${id}`, rev)
        return JSON.stringify({ ...each, seq, put: [collection, id, rev, value] })
      })
    })
    const head = JSON.parse(header) as { prev: { epoch: number; bytes: number } | null }
    if (n > 0 && head.prev) head.prev.bytes = bytes
    write(file, [JSON.stringify(head), ...out])
    bytes = readFileSync(file).length
  }
  expect(isDone).toBe(true)
}
const of =
  (event: string, collection: string) =>
  (entry: Entry): boolean =>
    entry.event === event && entry.put?.[0] === collection
/** The first session line that holds a message, and its file. */
const heard = (root: string): { file: string; at: number; all: string[] } => {
  const folder = join(root, '.team', 'sessions')
  for (const name of readdirSync(folder)) {
    const file = join(folder, name)
    const all = lines(file)
    const at = all.findIndex(line => line.includes('"mail"') && line.includes('word-'))
    if (at >= 0) return { file, at, all }
  }
  throw new Error('no session heard a word')
}
const taskFile = (root: string, change: (task: Record<string, unknown>) => void) => {
  const folder = join(root, '.tasks')
  const name = readdirSync(folder).find(each => /^task_.*\.json$/.test(each)) ?? ''
  const task = JSON.parse(readFileSync(join(folder, name), 'utf8'))
  change(task)
  writeFileSync(join(folder, name), JSON.stringify(task))
}

test('on what a team left that was never harmed it finds nothing', () => {
  expect(healthy.faults).toEqual([])
  const events = lines(join(healthy.ground.root, '.team', 'journal', '00000001.jsonl')).join('\n')
  for (const event of ['effect.done', 'request.decided', 'task.completed', 'verify.ended'])
    expect([
      event,
      readdirSync(join(healthy.ground.root, '.team', 'journal')).length > 1 || events.includes(event),
    ]).toEqual([event, true])
  expect(found(() => undefined)).toEqual([])
})

test('the journal: a line that is gone, a line that cannot be read', () => {
  expect(
    found(({ root }) => {
      const file = join(root, '.team', 'journal', '00000001.jsonl')
      write(file, lines(file).toSpliced(3, 1))
    }).join('\n'),
  ).toMatch(/entry \d+ of the journal follows \d+/)
})

test('tasks: lost, twice, two owners, two completions, a wrong file, a wrong blockedBy, one that was planned and never made', () => {
  const otherwise = (entry: Entry, change: object): Entry => {
    const [collection, id, rev, value] = entry.put ?? ['', '', 0, {}]
    return { ...entry, put: [collection, id, rev, { ...(value as Value), ...change }] }
  }
  const twin = (entry: Entry): Entry => ({
    ...entry,
    put: ['tasks', '99', 1, { ...(entry.put?.[3] as Value), id: '99' }],
  })
  const isPlan = (entry: Entry) =>
    of('effect.done', 'requests')(entry) && (entry.put?.[3] as Value | undefined)?.type === 'plan_request'
  const told = found(
    ({ root }) => {
      rewrite(root, of('task.created', 'tasks'), entry => [entry, twin(entry)])
      rewrite(root, of('task.started', 'tasks'), entry => [entry, otherwise(entry, { owner: 'carol' })])
      rewrite(root, of('task.completed', 'tasks'), entry => [entry, entry])
      rewrite(root, isPlan, entry => [otherwise(entry, { data: { tasks: [{ title: 'work other' }] } })])
      taskFile(root, task => Object.assign(task, { title: 'another', blockedBy: ['1'] }))
    },
    { tasks: new Set(['work never']) },
  )
  for (const fault of [
    /^task "work never" exists 0 times$/,
    /^task ".*" exists 2 times$/,
    /^task \d+ was given to carol while (alice|bob|dave) had it$/,
    /^task \d+ was completed 2 times$/,
    /^task "work other" of req_\d+ was never made$/,
    /title is "another", in the journal/,
    /blockedBy is \["1"\], derived \[\]/,
  ])
    expect(told).toContainEqual(expect.stringMatching(fault))
})

test('mail: a message in no context, in one twice, and in two', () => {
  expect(
    found(({ root }) => {
      const { file, at, all } = heard(root)
      write(file, all.toSpliced(at, 1))
    }).join('\n'),
  ).toMatch(/message word-\S+ to \w+ is in the contexts of: nobody/)
  expect(
    found(({ root }) => {
      const { file, at, all } = heard(root)
      write(file, all.toSpliced(at, 0, all[at] ?? ''))
    }).join('\n'),
  ).toMatch(/is in the context 2 times/)
  expect(
    found(({ root }) => {
      const { at, all } = heard(root)
      write(join(root, '.team', 'sessions', 'carol.jsonl'), [all[at] ?? ''])
    }).join('\n'),
  ).toMatch(/message word-\S+ is in the contexts of/)
})

test('requests: a decision that changed, an effect that was ended twice or never, a file that is gone', () => {
  const [id = ''] = healthy.promised.decisions.keys()
  const told = found(
    ({ root }) => {
      rewrite(root, of('request.decided', 'requests'), entry => [entry, entry])
      rewrite(root, of('effect.intent', 'requests'), entry => [entry, entry])
      rewrite(root, of('effect.done', 'requests'), entry => [entry, entry])
      rmSync(join(root, '.messages', 'requests', `${id}.json`))
    },
    { decisions: new Map([[id, 'rejected']]) },
  )
  for (const fault of [
    `^${id} was rejected, as was told, and is approved$`,
    '^req_\\d+ was decided 2 times$',
    '^the effect of req_\\d+ was begun 2 times$',
    '^the effect of req_\\d+ ended 2 times$',
    `^${id} has no file$`,
  ])
    expect(told).toContainEqual(expect.stringMatching(fault))
  const cut = found(({ root }) => rewrite(root, of('effect.done', 'requests'), () => []))
  expect(cut).toContainEqual(expect.stringMatching(/^the effect of req_\d+ .* has no outcome$/))
})

test('work: a call that ran twice, a commit that nothing reaches, a trunk that nobody verified, a merge twice, a torn work tree', () => {
  const ran = (root: string) => {
    const folder = join(root, 'team', 'alice', 'out', 'ran')
    mkdirSync(folder, { recursive: true })
    return folder
  }
  expect(found(({ root }) => writeFileSync(join(ran(root), 'twice'), 'abc\n'))).toEqual(['run twice: abc'])
  const lost = 'a'.repeat(40)
  expect(found(({ root }) => writeFileSync(join(ran(root), `commit-${lost}`), ''))).toEqual([
    `commit ${lost} is reachable from no ref of the hub or a clone`,
  ])
  const commit = (root: string, message: string) => {
    const git = (...args: string[]) =>
      execFileSync(
        'git',
        ['--git-dir', join(root, '.team', 'hub.git'), '-c', 'user.name=t', '-c', 'user.email=t@t.invalid', ...args],
        { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
      ).trim()
    const blob = git('hash-object', '-w', join(root, 'config.json'))
    const tree = execFileSync('git', ['--git-dir', join(root, '.team', 'hub.git'), 'mktree'], {
      encoding: 'utf8',
      input: `100644 blob ${blob}\tstray\n`,
    }).trim()
    git(
      'update-ref',
      'refs/heads/team/trunk',
      git('commit-tree', tree, '-p', 'team/trunk', '-p', 'team/task-1', '-m', message),
    )
  }
  expect(found(({ root }) => commit(root, 'stray')).join('\n')).toMatch(/trunk commit [0-9a-f]{40} was never verified/)
  expect(found(({ root }) => commit(root, 'Merge task 1: again')).join('\n')).toMatch(/task 1 was merged 2 times/)
  expect(found(({ repo }) => writeFileSync(join(repo, 'act.sh'), 'half')).join('\n')).toMatch(
    /the person's work tree or index is torn: M act.sh/,
  )
})

test('what is left: a draft, a lock, a folder of a check, a process', async () => {
  const paths = [
    '.team/holder.lock',
    '.team/.0123456789ab.tmp',
    '.team/sessions/.alice.next',
    '.team/verify/1-abcd',
    '.team/hub.git/refs/heads/team/trunk.lock',
    'team/alice/repo/.git/index.lock',
  ]
  let child: ChildProcess | undefined
  const harm = ({ root }: Copy) => {
    for (const path of paths) {
      mkdirSync(join(root, path, '..'), { recursive: true })
      writeFileSync(join(root, path), '')
      // Long before the last daemon ended: a young one may be that of somebody who waits.
      utimesSync(join(root, path), 1e9, 1e9)
    }
    child = spawn('sleep', ['60'], { env: { PATH: process.env.PATH, TEAM_COMMAND: `${root}#alice.1-1` } })
    // Until it shows its own environment.
    while (!existsSync(`/proc/${child.pid}`) || !readFileSync(`/proc/${child.pid}/environ`, 'utf8').includes(root));
  }
  try {
    const told = found(harm)
    expect(told.sort()).toEqual(
      [`process ${child?.pid} is left: sleep 60 `, ...paths.map(path => `${path} is left`)].sort(),
    )
  } finally {
    child?.kill('SIGKILL')
  }
})
