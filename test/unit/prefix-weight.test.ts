import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { expect, test } from 'vitest'
import { buildPrefix } from '../../src/agent/prefix.ts'
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
