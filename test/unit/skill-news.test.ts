import { mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { unwrap } from '../../src/lib/result.ts'
import { relinkSkills } from '../../src/sandbox/home.ts'
import { liveView } from '../../src/sandbox/view.ts'
import { SkillNews } from '../../src/teammate/skill-news.ts'
import { makePlace, type Place } from '../support/sandbox.ts'

let place: Place
let changes: number
beforeEach(() => {
  place = makePlace()
  place.view('alice')
  changes = 0
})
afterEach(() => place.remove())
const file = (path: string): string => join(place.root, 'team', path, 'SKILL.md')
const put = (path: string, text = `---\ndescription: d\n---\n${path}\n`): void => {
  mkdirSync(dirname(file(path)), { recursive: true })
  writeFileSync(file(path), text)
}
const news = (since: number | null = null): SkillNews =>
  new SkillNews({ teamDir: join(place.root, 'team'), name: 'alice', since, onChange: () => changes++ })

test('an edit of a SKILL.md, a new one and one that is gone are told once each, of the team and of the teammate', () => {
  put('skills/tidy')
  put('skills/old')
  put('alice/skills/own')
  put('bob/skills/his')
  const heard = news()
  expect([heard.look(), heard.look()]).toEqual([null, null])
  put('skills/tidy', 'other')
  put('alice/skills/own', 'other')
  put('bob/skills/his', 'other')
  put('skills/fresh')
  rmSync(dirname(file('skills/old')), { recursive: true })
  expect(heard.look()).toMatch(/\(changed: skills\/own, skills\/tidy; new: skills\/fresh; gone: skills\/old\)/)
  expect([heard.look(), changes]).toEqual([null, 1])
  // Saved anew by an editor with the same words, it says nothing else.
  writeFileSync(`${file('skills/tidy')}.new`, 'other')
  renameSync(`${file('skills/tidy')}.new`, file('skills/tidy'))
  utimesSync(file('skills/tidy'), new Date(), new Date())
  expect(heard.look()).toBeNull()
})

test('what changed while the thread was down is told at the first look; with no session of before there is nothing to tell', () => {
  put('skills/tidy')
  put('skills/same')
  const wrote = Date.now() - 60_000
  utimesSync(file('skills/same'), new Date(wrote - 60_000), new Date(wrote - 60_000))
  expect(news(wrote).look()).toMatch(/\(changed: skills\/tidy\)/)
  expect(news(null).look()).toBeNull()
  rmSync(join(place.root, 'team', 'skills'), { recursive: true })
  expect(news(wrote).look()).toBeNull()
})

test('a skill that came while the teammate lives can be reached after a look, one that is gone is an error and no throw', () => {
  const { root, workspace } = place
  const view = liveView({ name: 'alice', root, workspace, mode: 'dir', dataPaths: [], hub: null })
  put('skills/fresh')
  unwrap(relinkSkills(root, 'alice'))
  expect(view.resolve('skills/fresh/SKILL.md', 'read').ok).toBe(false)
  view.look()
  expect(unwrap(view.resolve('skills/fresh/SKILL.md', 'read'))).toMatchObject({
    real: file('skills/fresh'),
    shown: 'skills/fresh/SKILL.md',
  })
  expect(view.mounts.map(({ at }) => at)).toContain('skills/fresh')
  expect(view.resolve('skills/fresh/SKILL.md', 'write').ok).toBe(false)
  rmSync(join(root, 'team', 'skills'), { recursive: true })
  unwrap(relinkSkills(root, 'alice'))
  view.look()
  expect(view.mounts.map(({ at }) => at)).not.toContain('skills/fresh')
  writeFileSync(join(root, 'team', 'skills'), 'no folder')
  expect(relinkSkills(root, 'alice')).toMatchObject({ ok: false, fault: { code: 'io' } })
})
