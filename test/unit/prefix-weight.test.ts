import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, test } from 'vitest'
import { buildPrefix, subagentPrefix } from '../../src/agent/prefix.ts'
import { agents } from '../../src/cli/init.ts'
import { defaultTools } from '../../src/tools/index.ts'

test('the default team has at most 1,500 tokens before each call, with every default tool and the rules that team init writes', () => {
  const schemas = defaultTools.map(({ schema }) => JSON.stringify(schema)).join('\n')
  for (const mode of ['git', 'dir'] as const) {
    const system = buildPrefix({
      name: 'alice',
      role: '',
      systemPrompt: '',
      teamRules: agents,
      ownRules: '',
      teammates: [
        { name: 'alice', role: '' },
        { name: 'bob', role: '' },
      ],
      lead: 'user',
      mode,
      skillIndex: '',
    })
    expect(countTokens(system) + countTokens(schemas), mode).toBeLessThanOrEqual(1500)
  }
})

test('a subagent reads the rules that bind its teammate, and of team, role, skills and name nothing: all of them share the bytes', () => {
  const parts = {
    name: 'alice',
    role: 'tester',
    systemPrompt: 'a prompt',
    teamRules: 'Never touch vendor/.',
    ownRules: '',
    teammates: [{ name: 'bob', role: 'builder' }],
    lead: 'bob',
    mode: 'git',
    skillIndex: '- pdf: reads them',
  } as const
  const system = subagentPrefix(parts)
  expect(system).toContain('## Rules of the team\nNever touch vendor/.')
  expect(system).not.toMatch(/alice|bob|tester|a prompt|pdf/)
  expect(subagentPrefix({ ...parts, name: 'carol', role: '', skillIndex: '' })).toBe(system)
  expect(subagentPrefix({ ...parts, ownRules: 'Write in French.' })).toContain('## Rules for you\nWrite in French.')
  expect(subagentPrefix({ ...parts, mode: 'dir' })).toContain('a directory that a team shares')
})
