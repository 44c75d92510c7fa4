import { vi } from 'vitest'

// Threads are played, and have no processes to look for; all the rest is the product's own.
vi.mock(import('../../src/supervisor/thread.ts'), async () => {
  const { openThread } = await import('./threads.ts')
  return { openThread }
})
vi.mock(import('../../src/sandbox/leftover.ts'), async original => ({
  ...(await original()),
  shellsOf: () => [],
  endLeftovers: async () => [],
}))
vi.mock(import('../../src/git/damage.ts'), async original => ({ ...(await original()), cloneDamage: () => null }))
