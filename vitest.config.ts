import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

// unit: pure and in one process. contract: one suite a port, every backend. simulation: schedules from seeds. process: threads, processes, real git.
// e2e: the built product driven through its commands. The last two run dist/, which globalSetup builds once.
const project = (name: string, extra: object = {}) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    testTimeout: 90_000,
    hookTimeout: 60_000,
    // A deadline is there for what hangs, not for what is slow.
    expect: { poll: { timeout: 45_000 } },
    ...extra,
  },
})

export default defineConfig({
  test: {
    // Most of the time goes to processes that start and wait: one more worker than a small machine has cores.
    maxWorkers: Math.max(3, availableParallelism()),
    projects: [
      project('unit', { include: ['test/unit/**/*.test.ts', 'test/architecture.test.ts'] }),
      project('contract'),
      project('simulation', { setupFiles: ['test/simulation/setup.ts'], testTimeout: 120_000 }),
      project('process', { globalSetup: 'test/support/build.ts', testTimeout: 120_000 }),
      project('e2e', { globalSetup: 'test/support/build.ts', testTimeout: 180_000 }),
    ],
  },
})
