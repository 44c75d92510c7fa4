import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { clock, iso } from '../../src/lib/clock.ts'
import { decide, Request } from '../../src/protocol/request.ts'
import type { Problem } from '../../src/store/files/problem.ts'
import { RequestsFolder } from '../../src/store/files/requests-folder.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import { json, tempRoot, until } from '../support/folders.ts'

let root: string
let remove: () => void
let store: Store
let folder: RequestsFolder
let problems: Problem[]
beforeEach(async () => {
  ;({ root, remove } = tempRoot())
  store = openMemoryStore(clock)
  problems = []
  await start()
})
afterEach(async () => {
  await folder.close()
  remove()
})

const start = async () => {
  folder = new RequestsFolder({
    root,
    store,
    clock,
    onProblem: problem => problems.push(problem),
    onFailure: error => {
      throw error
    },
  })
  await folder.start()
}
const path = (file = 'req_1.json') => join(root, '.messages', 'requests', file)
const open = () => {
  const request = Request.parse({
    id: 'req_1', type: 'shutdown_request', from: 'human', to: 'alice', status: 'pending', outcome: null,
    title: 'stop', body: '', bodyHash: 'x', data: { teammate: 'alice', graceMs: 1000 }, createdAt: iso(clock.wall()),
    deadline: null, history: [], decidedBy: null, decidedAt: null, reason: null, effect: null, successor: null,
  }) // biome-ignore format: a record
  store.requests.create('req_1', request, { event: 'request.opened', by: 'human' })
  return request
}

test('each request stands in its file and follows its record', async () => {
  const request = open()
  await folder.projected()
  expect(json(path())).toMatchObject({ v: 1, rev: 1, status: 'pending', data: { teammate: 'alice' } })
  const decided = decide(request, 'alice', 'approve', null, iso(clock.wall()))
  store.requests.update('req_1', 1, decided, { event: 'request.decided', by: 'alice' })
  await folder.projected()
  expect(json(path())).toMatchObject({ rev: 2, status: 'approved', decidedBy: 'alice' })
})

test('D11 a status written into the file decides nothing: it is put back and told', async () => {
  open()
  await folder.projected()
  writeFileSync(path(), JSON.stringify({ ...json(path()), status: 'approved', decidedBy: 'human' }))
  await until('the file is put back', () => problems.length > 0)
  await folder.settled()
  expect(json(path())).toMatchObject({ status: 'pending', decidedBy: null })
  expect(store.requests.get('req_1')?.value.status).toBe('pending')
  expect(problems[0]?.reason).toContain('team approve req_1')
})

test('a deleted file is put back, a torn one too, and one of no request is set aside', async () => {
  open()
  await folder.projected()
  rmSync(path())
  await until('the file is back', () => existsSync(path()))
  writeFileSync(path(), '{"id"')
  writeFileSync(path('req_2.json'), '{"id":"req_2","status":"approved"}')
  await folder.settled()
  expect(json(path()).status).toBe('pending')
  expect(readdirSync(join(root, '.messages', 'archive', 'requests'))).toEqual(['req_2.json'])
  expect(readdirSync(join(root, '.messages', 'requests'))).toEqual(['req_1.json'])
  expect(problems).toHaveLength(3)
  expect(store.requests.size).toBe(1)
})

test('at the start a file that a crash left behind its record is rewritten without a word', async () => {
  const request = open()
  await folder.projected()
  await folder.close()
  store.requests.update('req_1', 1, { ...request, title: 'newer' }, { event: 'request.asked', by: 'alice' })
  await start()
  await folder.settled()
  expect(json(path())).toMatchObject({ rev: 2, title: 'newer' })
  expect(problems).toEqual([])
})
