import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errnoOf, unreadable } from '../lib/files.ts'
import { FaultError } from '../lib/result.ts'
import type { PrefixParts } from './prefix.ts'
import { loadSkills, skillIndex } from './skills.ts'

/**
 * The parts of a teammate's stable prefix as they stand on disk now, and what is wrong with its skills. `member` and the rest
 * come from config.json.
 */
export const readPrefixParts = (
  root: string,
  member: Pick<PrefixParts, 'name' | 'role' | 'systemPrompt'>,
  rest: Pick<PrefixParts, 'teammates' | 'lead' | 'mode'>,
): { parts: PrefixParts; warnings: readonly string[] } => {
  const { name, role, systemPrompt } = member
  const { skills, warnings } = loadSkills(join(root, 'team'), name)
  const parts = {
    name,
    role,
    systemPrompt,
    teamRules: readOptional(join(root, 'team', 'AGENTS.md')),
    ownRules: readOptional(join(root, 'team', name, 'AGENTS.md')),
    ...rest,
    skillIndex: skillIndex(skills),
  }
  return { parts, warnings }
}

const readOptional = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch (thrown) {
    if (errnoOf(thrown) === 'ENOENT') return ''
    const fault = unreadable(file, thrown)
    throw fault === undefined ? thrown : new FaultError(fault)
  }
}
