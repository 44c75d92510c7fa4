import type { ThreadData } from '../../src/protocol/thread.ts'

/** What a thread of test/support/thread.mjs is started with: it does `acts` in order. */
export const actor = (name: string, acts: string[], extra: object = {}): ThreadData => ({
  name,
  root: '/nowhere',
  workspace: '/nowhere',
  mode: 'dir',
  member: { acts, ...extra },
  limits: {},
  sandbox: { mode: 'off', kind: 'none', detail: '', remedy: null },
  dataPaths: [],
  told: { role: '', systemPrompt: '', teammates: [], lead: 'human' },
  secrets: [],
})
