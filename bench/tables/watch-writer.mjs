// The foreign writer of the watch table: appends lines to a file as its parent says, and tells it when it is done.
import { closeSync, openSync, writeSync } from 'node:fs'
import { now, sleep } from '../lib.mjs'

process.on('message', async ({ file, kind, count, gap }) => {
  const fd = openSync(file, 'a')
  const put = id => writeSync(fd, `${JSON.stringify({ id, at: now(), text: 'x'.repeat(200) })}\n`)
  if (kind === 'paced')
    for (let i = 0; i < count; i++) {
      put(i)
      await sleep(gap * (0.5 + Math.random()))
    }
  if (kind === 'burst') for (let i = 0; i < count; i++) put(i)
  if (kind === 'pairs')
    for (let i = 0; i < count; i++) {
      put(2 * i)
      // A timer cannot wait for less than a millisecond or so, and the gap is what matters.
      for (const end = now() + gap; now() < end; );
      put(2 * i + 1)
      await sleep(150)
    }
  closeSync(fd)
  process.send('done')
})
