import { parentPort } from 'node:worker_threads'
import { type Move, type Page, writePages } from '../store/files/pages.ts'

// The entry of the scribe's thread: writes what it is sent, batch by batch, and answers each.
parentPort?.on('message', (pages: readonly (Page | Move)[]) => parentPort?.postMessage(writePages(pages)))
