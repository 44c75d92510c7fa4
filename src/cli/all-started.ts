import { type Clock, delay } from '../lib/clock.ts'
import type { TeammateStatus } from '../protocol/rpc.ts'
import type { Daemon } from '../supervisor/daemon-options.ts'

/** How long a daemon that is up waits for the threads of its teammates before it says that it is ready. */
const patienceMs = 15_000

/** Still on its way to the first start: nobody has said yet whether it works. */
export const isStarting = ({ state, restarts }: Pick<TeammateStatus, 'state' | 'restarts'>): boolean =>
  state === 'starting' && restarts === 0

/** Waits for a teammate's first start, told of what happens to any of them by `changed`. */
export class AllStarted {
  readonly #clock: Clock
  #wake: () => void = () => undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Something happened to a teammate. */
  changed(): void {
    this.#wake()
  }

  /** Resolves when no teammate is starting any more, when the daemon ends, or when one takes too long: who does, is shown as starting. */
  async wait(daemon: Pick<Daemon, 'handlers' | 'isEnding' | 'done'>, patience = patienceMs): Promise<void> {
    const end = this.#clock.mono() + patience
    for (;;) {
      const woken = new Promise<void>(resolve => {
        this.#wake = resolve
      })
      const status = await daemon.handlers('status', {})
      const left = end - this.#clock.mono()
      if (daemon.isEnding || !status.ok || left <= 0 || !status.value.teammates.some(isStarting)) return
      const over = new AbortController()
      const late = delay(left, over.signal).catch(reason => {
        if (!over.signal.aborted) throw reason
      })
      await Promise.race([woken, late, daemon.done])
      over.abort()
    }
  }
}
