import { parentPort, workerData } from 'node:worker_threads'
import { clock } from '../lib/clock.ts'
import { arm } from '../lib/points.ts'
import { pageWriter, type WritePages } from '../store/files/pages.ts'

// The entry of the scribe's thread: writes what it is sent, batch by batch, and answers each.
arm(workerData as string | undefined)
const write = pageWriter(clock)
parentPort?.on('message', (asked: Parameters<WritePages>[0]) => parentPort?.postMessage(write(asked)))
