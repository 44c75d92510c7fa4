import type { Core } from './core.ts'
import { setStanding } from './members.ts'
import { settleMerges } from './merge-settle.ts'
import type { Notices } from './notices.ts'
import type { PingPong } from './ping-pong.ts'
import { releaseOrphans, settleShutdown } from './shutdown.ts'
import { takeTaskMessages } from './task-messages.ts'
import { withdrawGone, withdrawStale } from './withdraw.ts'

/**
 * Brings to rest what the holder before left in the middle, by the records alone, before anything new begins: additions and
 * news that a crash cut off, what is asked by nobody any more, shutdowns, held mail, tasks in hands that will not work on them.
 */
export const settle = async (core: Core, notices: Notices, pingPong: PingPong): Promise<void> => {
  const { store, tasks, requests, roster } = core
  tasks.recover()
  requests.recover()
  notices.recover()
  withdrawStale(core)
  withdrawGone(core)
  takeTaskMessages(core, notices)
  pingPong.recover()
  for (const request of requests.all()) if (request.type === 'shutdown_request') settleShutdown(core, request)
  // Who left and comes back begins as everybody does.
  for (const [name, { value }] of [...store.teammates.list()])
    if (!roster.has(name) && value.standing !== 'live') setStanding(core, name, 'live', null)
  await settleMerges(core)
  await releaseOrphans(core)
}
