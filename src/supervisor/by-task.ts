import type { Request, RequestOf } from '../protocol/request.ts'
import type { RequestType } from '../protocol/request-types.ts'

/** The types that are looked up by the task they are about. */
type Kept = Extract<RequestType, 'merge_request' | 'review_request' | 'plan_request' | 'resource_request'>

const kept: ReadonlySet<string> = new Set<Kept>(['merge_request', 'review_request', 'plan_request', 'resource_request'])

/** Ids of requests by the task they are about, in the order in which they were opened; the content is the store's. */
export class ByTask {
  readonly #ids = new Map<string, string[]>()
  readonly #get: (id: string) => Request | undefined

  constructor(get: (id: string) => Request | undefined) {
    this.#get = get
  }

  /** A request that is new. */
  add(request: Request): void {
    if (!kept.has(request.type) || !('task' in request.data) || request.data.task === null) return
    const key = `${request.type} ${request.data.task}`
    const ids = this.#ids.get(key)
    if (ids) ids.push(request.id)
    else this.#ids.set(key, [request.id])
  }

  all<T extends Kept>(type: T, task: string): RequestOf<T>[] {
    return (this.#ids.get(`${type} ${task}`) ?? []).flatMap(id => {
      const request = this.#get(id)
      return request?.type === type ? [request as RequestOf<T>] : []
    })
  }

  latest<T extends Kept>(type: T, task: string): RequestOf<T> | undefined {
    const id = this.#ids.get(`${type} ${task}`)?.at(-1)
    const request = id === undefined ? undefined : this.#get(id)
    return request?.type === type ? (request as RequestOf<T>) : undefined
  }
}
