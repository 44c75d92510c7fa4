// The reader of the lag table: reads each task file whenever the folder tells of it, and notes which revision it showed when.
import { readFileSync, watch } from 'node:fs'
import { join } from 'node:path'
import { now } from '../lib.mjs'

const dir = process.argv[2]
const seen = []
watch(dir, (_, name) => {
  const id = /^task_(.+)\.json$/.exec(name)?.[1]
  if (id === undefined) return
  let text
  try {
    text = readFileSync(join(dir, name), 'utf8')
  } catch {
    return // Moved to the archive meanwhile.
  }
  seen.push({ id, rev: Number(/"rev": (\d+)/.exec(text)?.[1]), at: now() })
})
process.on('message', () => {
  process.send(seen, () => process.exit())
})
process.send('ready')
