import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { prepareHome } from '../../src/sandbox/home.ts'
import { dataNames, isTop, makeView, type View } from '../../src/sandbox/view.ts'
import { makePlace, type Place } from '../support/sandbox.ts'

let place: Place
let view: View
beforeEach(() => {
  place = makePlace()
  mkdirSync(join(place.root, 'team/skills/csv'))
  writeFileSync(join(place.root, 'team/skills/csv/SKILL.md'), 'x')
  view = place.view('alice', { mode: 'git' })
  mkdirSync(join(view.home, 'repo/src'))
  writeFileSync(join(view.home, 'repo/src/a.ts'), 'a')
})
afterEach(() => place.remove())

const real = (path: string, access: 'read' | 'append' | 'write' = 'read') => {
  const found = view.resolve(path, access)
  return found.ok ? found.value.shown : `refused: ${found.fault.message}`
}

test('paths resolve from the top of the view, absolute ones inside a mount too', () => {
  expect(real('repo/src/a.ts', 'write')).toBe('repo/src/a.ts')
  expect(real('./repo//src/../src/a.ts')).toBe('repo/src/a.ts')
  expect(real(join(view.home, 'out/new/file'), 'write')).toBe('out/new/file')
  expect(real('skills/csv/SKILL.md')).toBe('skills/csv/SKILL.md')
  expect(real('NOTES.md', 'append')).toBe('NOTES.md')
  expect(isTop(view, '.')).toBe(true)
  expect(isTop(view, '')).toBe(true)
  expect(isTop(view, 'repo/..')).toBe(true)
  expect(isTop(view, 'repo')).toBe(false)
})

test('G01 nothing leads out: links, dots, absolute paths, siblings with the same prefix, and files still to be made', () => {
  const outside = join(place.top, 'outside')
  mkdirSync(outside)
  mkdirSync(join(place.root, 'team/alice-evil'))
  const repo = join(view.home, 'repo')
  symlinkSync(outside, join(repo, 'link'))
  symlinkSync('../../../../outside', join(repo, 'relative'))
  symlinkSync(join(outside, 'not-yet'), join(repo, 'dangling'))
  symlinkSync('loop', join(repo, 'loop'))
  mkdirSync(join(repo, 'a'))
  for (const path of [
    'repo/link',
    'repo/link/x',
    'repo/relative/x',
    'repo/dangling',
    'repo/loop',
    '../x',
    'repo/../../x',
    'repo/a/../../../x',
    'repo/missing/../../../x',
    '../alice-evil/x',
    '../bob/NOTES.md',
    'skills/csv/../../AGENTS.md',
    '/etc/passwd',
    `${repo}-evil`,
    outside,
    'config.json',
    'repo/x\0y',
    'repo/src/a.ts/below',
  ])
    expect(real(path), path).toMatch(/^refused/)
})

test('G01 a link that stays inside works, and so does a team root behind a link', () => {
  symlinkSync('src', join(view.home, 'repo/inner'))
  expect(real('repo/inner/a.ts', 'write')).toBe('repo/src/a.ts')
  symlinkSync(place.root, join(place.top, 'by-link'))
  const other = makeView({
    name: 'alice',
    root: join(place.top, 'by-link'),
    workspace: place.workspace,
    mode: 'git',
    dataPaths: [],
    hub: null,
  })
  expect(other.resolve('repo/src/a.ts', 'write')).toMatchObject({ ok: true })
  expect(other.resolve(join(place.top, 'by-link/team/alice/repo/src/a.ts'), 'read')).toMatchObject({ ok: true })
})

test('a teammate cannot change its own rules, task or skills, and notes only grow', () => {
  for (const path of ['AGENTS.md', 'TASK.md', 'skills/csv/SKILL.md', 'skills/new', 'data/x'])
    expect(real(path, 'write'), path).toMatch(/is read-only/)
  expect(real('memory.md', 'append')).toMatch(/by the tool memory alone/)
  expect(real('NOTES.md', 'write')).toMatch(/only be appended/)
})

test('a refusal says what there is, and points at repo/ where the path means that', () => {
  const found = view.resolve('src/a.ts', 'read')
  expect(found).toMatchObject({
    ok: false,
    fault: {
      code: 'refused',
      hint: expect.stringMatching(/did you mean repo\/src\/a\.ts\?.*out \(write\), repo \(write\)/),
    },
  })
})

test('in dir mode with the workspace at the team root the run state is hidden, and the own home is not', () => {
  const own = makePlace(true)
  try {
    writeFileSync(join(own.root, 'code.js'), '1')
    mkdirSync(join(own.root, '.git/hooks'), { recursive: true })
    writeFileSync(join(own.root, '.git/config'), '')
    view = own.view('bob')
    expect(real('repo/code.js', 'write')).toBe('repo/code.js')
    for (const path of [
      'repo/config.json',
      'repo/.tasks/task_1.json',
      'repo/.team',
      'repo/.messages/x',
      'repo/team/eve/NOTES.md',
      'repo/.transcripts',
    ])
      expect(real(path), path).toMatch(/^refused.*outside/)
    expect(real('out/x', 'write')).toBe('out/x')
    expect(real('repo/team/bob/out/x', 'write')).toBe('out/x')
    expect(real('repo/.git/hooks/pre-commit', 'write')).toMatch(/read-only/)
    expect(real('repo/.git/config', 'write')).toMatch(/read-only/)
    expect(real('repo/.git/hooks')).toBe('repo/.git/hooks')
  } finally {
    own.remove()
  }
})

test('data is shown under its own name, numbered where two are alike, read-only', () => {
  const paths = ['one', 'two'].map(name => join(place.top, name, 'in'))
  for (const path of paths) mkdirSync(path, { recursive: true })
  expect(dataNames(paths).map(({ at }) => at)).toEqual(['in', 'in-2'])
  view = place.view('carol', { dataPaths: paths })
  expect(real('data/in-2/x')).toBe('data/in-2/x')
  expect(real('data/in-2/x', 'write')).toMatch(/read-only/)
  expect(realpathSync(join(view.home, 'data/in-2'))).toBe(paths[1])
})

test('a home is made once, and making it ready again takes nothing away that a person put there', () => {
  const home = join(place.root, 'team/dave')
  mkdirSync(join(home, 'skills/CSV'), { recursive: true })
  mkdirSync(join(home, 'data/in'), { recursive: true })
  writeFileSync(join(home, 'NOTES.md'), 'mine')
  const options = {
    name: 'dave',
    root: place.root,
    workspace: place.workspace,
    mode: 'dir' as const,
    dataPaths: ['/nowhere/in'],
  }
  const twice = [prepareHome(options), prepareHome(options)]
  for (const made of twice)
    expect(made).toMatchObject({
      ok: true,
      value: {
        warnings: [
          "team/dave/skills/CSV is used instead of the team's skill csv",
          'data: /nowhere/in does not exist',
          expect.stringMatching(/data\/in stands where a link/),
        ],
      },
    })
  expect(realpathSync(join(home, 'repo'))).toBe(place.workspace)
})

test('a clone that lies where dir mode wants its link is left alone and named', () => {
  mkdirSync(join(place.root, 'team/erin/repo'), { recursive: true })
  expect(
    prepareHome({ name: 'erin', root: place.root, workspace: place.workspace, mode: 'dir', dataPaths: [] }),
  ).toMatchObject({ ok: false, fault: { code: 'config', message: expect.stringMatching(/erin\/repo is a folder/) } })
})

test('I05 a loop of links among the skills is no skill and no hang', () => {
  const skills = join(place.root, 'team/frank/skills')
  mkdirSync(skills, { recursive: true })
  symlinkSync('b', join(skills, 'a'))
  symlinkSync('a', join(skills, 'b'))
  expect(
    place
      .view('frank')
      .mounts.filter(mount => mount.at.startsWith('skills/'))
      .map(({ at }) => at),
  ).toEqual(['skills/csv'])
})
