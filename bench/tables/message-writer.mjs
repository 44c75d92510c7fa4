// Appends lines to the inbox named in its arguments, as a foreign program would: each says when it was written.
import { appendFileSync } from 'node:fs'

const [, , file] = process.argv
let n = 0
process.on('message', async ({ count, gap }) => {
  for (let i = 0; i < count; i++) {
    const at = Number(process.hrtime.bigint()) / 1e6
    appendFileSync(file, `${JSON.stringify({ from: 'bench', to: 't-2', type: 'info', content: `f${n++} ${at}` })}\n`)
    if (gap > 0) await new Promise(resolve => setTimeout(resolve, gap))
  }
})
process.send('ready')
