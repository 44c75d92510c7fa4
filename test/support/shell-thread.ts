import { workerData } from 'node:worker_threads'
import { makeShell } from '../../src/sandbox/make-shell.ts'
import type { Probe } from '../../src/sandbox/shell.ts'
import { makeView, type ViewOptions } from '../../src/sandbox/view.ts'

/** A thread with one command that outlasts it. */
const { view, probe, marker } = workerData as { view: ViewOptions; probe: Probe; marker: string }
const shell = makeShell({
  view: makeView(view),
  probe,
  mode: 'prefer',
  permissions: { allow: [], ask: [], deny: [] },
  marker,
})
await shell.run({
  command: 'setsid sleep 90 & sleep 91',
  timeoutMs: 60_000,
  trusted: true,
  outputBytes: 1000,
  outputMaxBytes: 1000,
})
