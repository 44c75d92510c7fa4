import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import matter from 'gray-matter'
import { cut, wellFormed } from '../lib/text.ts'

export interface Skill {
  readonly name: string
  /** One line. */
  readonly description: string
  /** Its folder in the view: `skills/<folder>`. */
  readonly dir: string
}

/** Of a SKILL.md no more than this is looked at for its frontmatter. */
const maxFile = 1_048_576
/** As much as published skills may have. */
const maxDescription = 1024

/**
 * The skills of a teammate: its own folders in team/<name>/skills first, then the team's in team/skills. `teamDir` is the
 * root's `team` folder. Of two with the same name (whatever the case) the own one wins, then the first folder in byte
 * order, with one warning. Never throws: what cannot be read is named in a warning and left out, the rest is loaded.
 */
export const loadSkills = (teamDir: string, name: string): { skills: Skill[]; warnings: string[] } => {
  const warnings: string[] = []
  const skills = new Map<string, Skill & { from: string }>()
  /** Real folder → how it is called where it was first seen. */
  const seen = new Map<string, string>()
  const own = join(teamDir, name, 'skills')
  const folders = [
    ...foldersIn(own, `team/${name}/skills`, warnings, true),
    ...foldersIn(join(teamDir, 'skills'), 'team/skills', warnings, false),
    ...foldersIn(own, `team/${name}/skills`, [], false),
  ]
  for (const { path, shown, folder } of folders) {
    const real = realpathSync(path)
    const before = seen.get(real)
    if (before !== undefined) {
      // The own view's link to a team's skill, or the own folder met a second time, is no double.
      const isView = before === shown || shown === `team/${name}/skills/${basename(before)}`
      if (!isView) warnings.push(`${shown}: the same folder as ${before}, which is used`)
      continue
    }
    seen.set(real, shown)
    const skill = readSkill(path, shown, folder, warnings)
    if (!skill) continue
    const key = skill.name.toLowerCase()
    const first = skills.get(key)
    if (first)
      warnings.push(`${shown}: a skill named ${first.name} is there already (${first.from}), this one is left out`)
    else skills.set(key, { ...skill, from: shown })
  }
  const sorted = [...skills.values()].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  return { skills: sorted.map(({ name: own, description, dir }) => ({ name: own, description, dir })), warnings }
}

/** One line a skill, for the stable prefix. The folder is told where it differs from the name. */
export const skillIndex = (skills: readonly Skill[]): string =>
  skills
    .map(({ name, description, dir }) => `- ${name}${dir === `skills/${name}` ? '' : ` (${dir})`}: ${description}`)
    .join('\n')

interface Folder {
  readonly path: string
  readonly shown: string
  readonly folder: string
}

/** Folders in byte order: real ones alone, or the linked ones too. A loop of links and a dead link are no folders. */
const foldersIn = (path: string, shown: string, warnings: string[], realOnly: boolean): Folder[] => {
  if (!existsSync(path)) return []
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter(entry => !entry.name.startsWith('.'))
      .sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
      .flatMap(entry => {
        const folder = join(path, entry.name)
        const fault = entry.isSymbolicLink() ? linkFault(folder) : null
        if (fault !== null) warnings.push(`${shown}/${entry.name}: ${fault}`)
        if (fault !== null || (entry.isSymbolicLink() && realOnly)) return []
        return statSync(folder, { throwIfNoEntry: false })?.isDirectory()
          ? [{ path: folder, shown: `${shown}/${entry.name}`, folder: entry.name }]
          : []
      })
  } catch (thrown) {
    warnings.push(`${shown} cannot be read: ${(thrown as Error).message}`)
    return []
  }
}

const linkFault = (path: string): string | null => {
  try {
    realpathSync(path)
    return null
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === 'ELOOP' ? 'a loop of links' : 'a link to nothing'
  }
}

const readSkill = (path: string, shown: string, folder: string, warnings: string[]): Skill | null => {
  const file = `${shown}/SKILL.md`
  let text: string
  try {
    const bytes = readFileSync(join(path, 'SKILL.md'))
    text = bytes.subarray(0, maxFile).toString('utf8')
  } catch (thrown) {
    const code = (thrown as NodeJS.ErrnoException).code
    warnings.push(
      `${file}: ${code === 'ENOENT' ? 'there is none' : `it cannot be read (${code})`}, the skill is left out`,
    )
    return null
  }
  const read = frontmatter(text)
  if (read.problem !== null) warnings.push(`${file}${read.line === null ? '' : `:${read.line}`}: ${read.problem}`)
  const name = oneLine(read.data.name ?? '') || folder
  const description = oneLine(read.data.description ?? '') || oneLine(firstLine(read.body))
  if (description === '') {
    warnings.push(`${file}: it says nothing of what the skill is for, the skill is left out`)
    return null
  }
  return { name: cut(name, 100), description: cut(description, maxDescription), dir: `skills/${folder}` }
}

const oneLine = (text: string): string => wellFormed(text).replace(/\s+/g, ' ').trim()

const firstLine = (body: string): string =>
  body
    .split('\n')
    .map(line => line.replace(/^#+\s*/, '').trim())
    .find(line => line !== '') ?? ''

const deny = {
  parse(): object {
    throw new Error('only YAML is read here')
  },
  stringify(): string {
    throw new Error('nothing is written here')
  },
}

interface Frontmatter {
  readonly data: { readonly name?: string; readonly description?: string }
  readonly body: string
  /** What was wrong, and on which line, where the file could be read all the same. */
  readonly problem: string | null
  readonly line: number | null
}

/**
 * YAML between two lines of `---`, else what its lines say: `key: value`, the value taken as it stands, colons, `#`, `[`
 * and all. BOM and CRLF are nothing special. Nothing in a file is ever run.
 */
const frontmatter = (source: string): Frontmatter => {
  const text = source.replace(/^\uFEFF/, '').replace(/\r\n?/g, '\n')
  const opening = /^---[ \t]*(\S*)[ \t]*\n/.exec(text)
  if (!opening)
    return { data: {}, body: text, problem: text.trim() === '' ? 'it is empty' : 'it has no frontmatter', line: 1 }
  const after = text.slice(opening[0].length)
  const closing = /^---[ \t]*$/m.exec(after)
  const block = closing ? after.slice(0, closing.index) : after
  const body = closing ? after.slice(closing.index + closing[0].length) : ''
  if (opening[1] && opening[1] !== 'yaml')
    return { data: lines(block), body, problem: `its frontmatter is ${opening[1]}, read line by line`, line: 1 }
  if (!closing)
    return { data: lines(block), body: '', problem: 'its frontmatter has no closing ---, read line by line', line: 1 }
  try {
    const options = { language: 'yaml', engines: { javascript: deny, js: deny, coffee: deny, cson: deny } }
    const data: unknown = matter(`---\n${block}---\n`, options).data
    const own = typeof data === 'object' && data !== null ? (data as Record<string, unknown>) : {}
    const plain = lines(block)
    // YAML made a list or map of what was meant as text, such as `[beta] does x`: the line says it better.
    const pick = (key: 'name' | 'description') => {
      const value = own[key]
      if (typeof value === 'string') return { [key]: value }
      return value === undefined || value === null ? {} : { [key]: plain[key] ?? String(value) }
    }
    return { data: { ...pick('name'), ...pick('description') }, body, problem: null, line: null }
  } catch (thrown) {
    const at = (thrown as { mark?: { line?: number } }).mark?.line
    const reason = (thrown as { reason?: string }).reason ?? (thrown as Error).message.split('\n')[0]
    // Line 1 is the opening ---, and the mark counts from 0.
    return {
      data: lines(block),
      body,
      problem: `its frontmatter is no YAML (${reason}), read line by line`,
      line: at === undefined ? 1 : at + 1,
    }
  }
}

/** `key: value` at the beginning of a line; indented lines below go on with it. Quotes around a whole value are taken off. */
const lines = (block: string): { name?: string; description?: string } => {
  const found = new Map<string, string>()
  let last: string | undefined
  for (const line of block.split('\n')) {
    const field = /^([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?$/.exec(line)
    if (field) {
      last = field[1]?.toLowerCase() ?? ''
      const value = (field[2] ?? '').trim()
      if (!found.has(last)) found.set(last, /^[|>][+-]?$/.test(value) ? '' : value.replace(/^(['"])(.*)\1$/, '$2'))
      else last = undefined
    } else if (last !== undefined && /^[ \t]+\S/.test(line)) found.set(last, `${found.get(last)} ${line.trim()}`)
    else if (line.trim() !== '') last = undefined
  }
  const [name, description] = [found.get('name'), found.get('description')]
  return { ...(name === undefined ? {} : { name }), ...(description === undefined ? {} : { description }) }
}
