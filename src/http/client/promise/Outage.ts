/** Consecutive failures of calls that wait for a task: they continue through a restart of the service, up to a time limit. */
import { aborted, backoff, isTransient, sleep } from "./Transport.ts"

/** Milliseconds of failures after which the last one is final. */
const maxOutage = 5 * 60_000
/** Milliseconds before the next attempt: the first delay and the longest. */
const delay = { first: 1000, maximum: 30_000 }

export class Outage {
  readonly #signal: AbortSignal | undefined
  #failures = 0
  /** Monotonic milliseconds of the first failure. */
  #begunAt = 0

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal
  }

  /** A call succeeded. */
  end() {
    this.#failures = 0
  }

  /** Resolves before the next attempt; rejects when a further attempt is pointless or the outage is too long. */
  async pauseAfter(error: unknown): Promise<void> {
    if (this.#signal?.aborted === true) throw aborted(this.#signal)
    if (this.#failures === 0) this.#begunAt = performance.now()
    if (!isTransient(error) || performance.now() - this.#begunAt > maxOutage) throw error
    await sleep(backoff(this.#failures++, delay), this.#signal)
  }
}
