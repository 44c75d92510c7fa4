import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createConnection, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { clock } from '../../src/lib/clock.ts'
import { fail, ok, unwrap } from '../../src/lib/result.ts'
import type { JournalEntry } from '../../src/protocol/event.ts'
import { type Client, connect, type Holder, hold, type RpcHandler } from '../../src/store/index.ts'

let root: string
let holder: Holder
const clients: Client[] = []
const open = async (): Promise<Client> => {
  const client = unwrap(await connect(root))
  clients.push(client)
  return client
}
const take = async (kind: 'daemon' | 'cli' = 'daemon') => unwrap(await hold(root, kind, { version: '1.2.3', clock }))

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'team-rpc-'))
  holder = await take()
})
afterEach(async () => {
  for (const client of clients.splice(0)) client.close()
  await holder.release()
  rmSync(root, { recursive: true })
})

/** A connection without the client, to send what the client never would. */
const raw = async () => {
  const socket = createConnection(join(root, '.team', 'sock'))
  await once(socket, 'connect')
  const lines: unknown[] = []
  let held = ''
  socket.setEncoding('utf8').on('data', piece => {
    const parts = (held + piece).split('\n')
    held = parts.pop() ?? ''
    for (const part of parts) lines.push(JSON.parse(part))
    socket.emit('lines')
  })
  const answers = async (count: number): Promise<unknown[]> => {
    while (lines.length < count) await once(socket, 'lines')
    return lines
  }
  return { socket: socket as Socket, answers }
}

const echo: RpcHandler = async (method, params) => ok({ method, params })

test('hello is answered before anything is served', async () => {
  const client = await open()
  expect(unwrap(await client.call('hello', {}))).toMatchObject({ pid: process.pid, kind: 'daemon', version: '1.2.3' })
})

test('a request that comes before the daemon serves waits for it', async () => {
  const client = await open()
  const answer = client.call('status', {})
  await client.call('hello', {})
  holder.serve(async () => ok('late'))
  expect(await answer).toEqual({ ok: true, value: 'late' })
})

test('a command that holds for a moment says at once that no daemon runs', async () => {
  await holder.release()
  holder = await take('cli')
  const client = await open()
  expect(await client.call('status', {})).toMatchObject({ ok: false, fault: { code: 'offline' } })
})

test('calls are answered each with its own, whatever order they end in, byte for byte', async () => {
  let free: () => void = () => {}
  const gate = new Promise<void>(resolve => {
    free = resolve
  })
  holder.serve(async (method, params, from) => {
    if (method === 'status') await gate
    return echo(method, params, from)
  })
  const client = await open()
  const slow = client.call('status', {})
  const text = `u2028 \u2028 nel \u0085 cr \r lf \n emoji \ud83d\ude00 ${'日'.repeat(1_500_000)}`
  const quick = await client.call('message.send', { to: 'x', content: text })
  expect((quick as { value?: unknown }).value).toEqual({
    method: 'message.send',
    params: { to: 'x', content: text },
  })
  free()
  expect(await slow).toEqual({ ok: true, value: { method: 'status', params: {} } })
})

test('a fault keeps its code and hint; a throw is answered as a fault, and the connection lives', async () => {
  holder.serve(async method => {
    if (method === 'land') throw new Error('boom')
    return fail('refused', 'not now', 'later')
  })
  const client = await open()
  expect(await client.call('status', {})).toEqual({
    ok: false,
    fault: { code: 'refused', message: 'not now', hint: 'later' },
  })
  expect(await client.call('land', {})).toMatchObject({ ok: false, fault: { code: 'internal', message: 'boom' } })
  expect((await client.call('hello', {})).ok).toBe(true)
})

test('lines that are no request are refused one by one, and the connection lives', async () => {
  holder.serve(echo)
  const { socket, answers } = await raw()
  for (const line of ['nonsense', '{"id":7}', '[]', 'null', '{"id":"x","method":"status"}', '', '  '])
    socket.write(`${line}\n`)
  socket.write('{"id":8,"method":"sta')
  socket.write('tus","params":{}}\n')
  const lines = await answers(6)
  expect(lines.slice(0, 5)).toMatchObject([0, 7, 0, 0, 0].map(id => ({ id, ok: false, fault: { code: 'usage' } })))
  expect(lines[5]).toMatchObject({ id: 8, ok: true })
  socket.destroy()
})

test('a line without an end is refused at its limit, and other connections live', async () => {
  holder.serve(echo)
  const client = await open()
  const { socket, answers } = await raw()
  socket.on('error', () => {})
  const piece = Buffer.alloc(1 << 20, 'x')
  for (let n = 0; n < 17; n++) socket.write(piece)
  expect(await answers(1)).toMatchObject([{ id: 0, ok: false, fault: { code: 'usage' } }])
  if (!socket.destroyed) await once(socket, 'close')
  expect((await client.call('hello', {})).ok).toBe(true)
  const huge = await client.call('message.send', { to: 'x', content: 'x'.repeat(17 << 20) })
  expect(huge).toMatchObject({ ok: false, fault: { code: 'usage' } })
})

test('entries are followed as they happen until the asker goes, and the holder hears that it went', async () => {
  const went: string[] = []
  holder.serve(async (_method, params, { stream, signal }) => {
    const stop = holder.store.onEntry(entry => stream(entry))
    await once(signal, 'abort')
    stop()
    went.push(JSON.stringify(params))
    return ok(null)
  })
  const client = await open()
  const seen: JournalEntry[] = []
  const leave = new AbortController()
  const three = new Promise<void>(resolve => {
    const following = client.follow(
      { after: 5 },
      entry => {
        seen.push(entry)
        if (seen.length === 3) {
          leave.abort()
          void following.then(result => {
            expect(result).toEqual(ok(undefined))
            resolve()
          })
        }
      },
      leave.signal,
    )
  })
  // Until the follower is there, and three more were told.
  while (seen.length < 3) {
    await holder.store.note({ event: 'warning', by: 'human', info: { n: seen.length } }).durable
    await new Promise(resolve => setImmediate(resolve))
  }
  await three
  expect(seen.map(entry => entry.event)).toEqual(['warning', 'warning', 'warning'])
  while (went.length === 0) await new Promise(resolve => setImmediate(resolve))
  expect(went).toEqual(['{"after":5,"follow":true}'])
})

test('an asker that never reads is cut off instead of filling the holder', async () => {
  let isGone = false
  holder.serve(async (_method, _params, { stream, signal }) => {
    const entry: JournalEntry = { seq: 1, at: '', event: 'warning', by: 'human', info: { pad: 'x'.repeat(1 << 20) } }
    for (let n = 0; n < 64 && !signal.aborted; n++) {
      stream(entry)
      await new Promise(resolve => setImmediate(resolve))
    }
    isGone = signal.aborted
    return ok(null)
  })
  const socket = createConnection(join(root, '.team', 'sock'))
  await once(socket, 'connect')
  socket.pause()
  socket.on('error', () => {})
  socket.write('{"id":1,"method":"events","params":{"follow":true}}\n')
  while (!isGone) await new Promise(resolve => setImmediate(resolve))
  socket.destroy()
})

test('calls under way when the holder ends are answered offline, and so is who comes later', async () => {
  holder.serve(() => new Promise(() => {}))
  const client = await open()
  const waiting = client.call('status', {})
  const following = client.follow({}, () => {}, new AbortController().signal)
  await client.call('hello', {})
  await holder.release()
  expect(await waiting).toMatchObject({ ok: false, fault: { code: 'offline' } })
  expect(await following).toMatchObject({ ok: false, fault: { code: 'offline' } })
  expect(await client.call('hello', {})).toMatchObject({ ok: false, fault: { code: 'offline' } })
  expect(await connect(root)).toMatchObject({ ok: false, fault: { code: 'offline' } })
  expect(await connect(join(root, 'none'))).toMatchObject({ ok: false, fault: { code: 'offline' } })
})

test('the client loads no package and little of its own, so that status is answered fast', async () => {
  const { metafile } = await build({
    entryPoints: [fileURLToPath(new URL('../../src/store/rpc/client.ts', import.meta.url))],
    bundle: true,
    platform: 'node',
    write: false,
    metafile: true,
    outdir: 'unused',
  })
  const inputs = Object.keys(metafile.inputs).map(path => path.replace(/^.*src\//, ''))
  expect(inputs.sort()).toEqual([
    'lib/result.ts',
    'store/rpc/client.ts',
    'store/rpc/lines.ts',
    'store/rpc/socket-path.ts',
  ])
})
