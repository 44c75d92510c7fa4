import { fail, ok, type Result } from '../lib/result.ts'
import type { Request } from '../protocol/request.ts'
import type { Core } from './core.ts'

/** So many requests of one teammate may be open: wait for their decision, or be leases that it holds. */
export const mostOpen = 32
/** Together they hold no more than this many messages may; the first one may be as long as a message may be. */
const mostMessages = 2

/**
 * May this teammate open one more? Whoever decides reads them all, and so does every screen: a model that asks without end
 * must not be what they wait for. The human and the supervisor open what they are told to.
 */
export const mayOpen = (
  { requests, leases, config }: Pick<Core, 'requests' | 'leases' | 'config'>,
  actor: string,
  opened: { readonly title: string; readonly body: string; readonly data: unknown },
): Result<null> => {
  if (actor === 'human') return ok(null)
  const open: readonly Request[] = [...requests.waiting(actor), ...leases.held().filter(({ from }) => from === actor)]
  if (open.length === 0) return ok(null)
  const ids = open.map(({ id }) => id)
  const remedy = `end your turn and wait for their decisions, or withdraw what you do not need: ${ids.join(', ')}`
  if (open.length >= mostOpen)
    return fail('refused', `${open.length} requests of yours are open, and no more may be`, remedy)
  const most = mostMessages * config.limits.messageBytes
  const held = bytes(opened) + open.reduce((sum, request) => sum + bytes(request), 0)
  return held > most
    ? fail(
        'refused',
        `your open requests would hold ${held} bytes together, and ${most} are allowed (${mostMessages} times limits.messageBytes)`,
        `put the long of it in a file and say where it is; or ${remedy}`,
      )
    : ok(null)
}

const bytes = ({ title, body, data }: Parameters<typeof mayOpen>[2]): number =>
  Buffer.byteLength(title) + Buffer.byteLength(body) + Buffer.byteLength(JSON.stringify(data))
