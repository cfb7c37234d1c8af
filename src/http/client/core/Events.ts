/** Sends the events of runs to the service, each until it is answered. */
import { backoff, sleep } from "../promise/Transport.ts"
import type { CoreLog } from "./CoreTypes.ts"

/** The service's answer to an event: `unwanted` means that the run is over, `invalid` that it cannot read the event. */
export type Verdict = "accepted" | "unwanted" | "invalid"

export interface Answer {
  readonly verdict: Verdict
  /** The fields of the answer; empty when it is no JSON object. */
  readonly body: { readonly [field: string]: unknown }
}

/** The run of an event, and its destination. */
export interface Address {
  readonly taskId: string
  readonly runId: string
  readonly eventsUrl: string
}

/** Milliseconds. */
const attemptTimeout = 15_000
const delays = { first: 100, maximum: 5000 }
const maxRetryAfter = 30_000
/** Between the events of a run, and between requests with those of several. */
export const interval = 40
/** UTF-16 units of the events in one request: 1 MiB as UTF-8, at most. */
const batchLength = 349_000

const parse = (text: string): Answer["body"] => {
  try {
    const parsed: unknown = JSON.parse(text)
    return typeof parsed === "object" && parsed !== null ? parsed as Answer["body"] : {}
  } catch {
    return {}
  }
}

/** Undefined for an answer after which the same event is sent again. */
const verdictOf = (status: number): Verdict | undefined => {
  if (status >= 200 && status < 300) return "accepted"
  if (status === 404 || status === 409 || status === 410) return "unwanted"
  return status >= 500 || [401, 403, 408, 425, 429].includes(status) ? undefined : "invalid"
}

/** Undefined: the event has to be sent again. A refusal has the status that its answer would have had alone. */
const resultOf = (result: unknown): Answer | undefined => {
  const body = typeof result === "object" && result !== null ? result as Answer["body"] : {}
  const { applied, status } = body
  const ofError = typeof status === "number" ? verdictOf(status) : undefined
  const verdict = applied === undefined ? ofError : "accepted"
  return verdict && { verdict, body }
}

interface Failed {
  /** Milliseconds. */
  readonly retryAfter: number
}

const failed: Failed = { retryAfter: 0 }

/** An event that waits for those of other runs. */
interface Gathered {
  readonly url: string
  readonly text: string
  readonly signal: AbortSignal
  readonly resolve: (answer: Answer | Failed) => void
}

interface EventsOptions {
  readonly token: string
  readonly fetch: typeof globalThis.fetch
  readonly log: CoreLog
}

export class Events {
  readonly #options: EventsOptions
  /** True if the last attempt failed: an outage is logged once. */
  #isFailing = false
  /** The service that has live text, which takes the events of several runs in one request. */
  #liveUrl: string | undefined
  #gathered: Array<Gathered> = []
  #gatheredAt = -Infinity

  constructor(options: EventsOptions) {
    this.#options = options
  }

  /** True if events of several runs go to this URL in one request. */
  isGathering(eventsUrl: string): boolean {
    return eventsUrl === this.#liveUrl
  }

  /**
   * Sends an event until it is answered. Rejects when the signal aborts. The body keeps its `event_id`. With `gathers` it may wait for
   * those of other runs, for 40 ms.
   */
  async send(eventsUrl: string, body: object, signal: AbortSignal, gathers = false): Promise<Answer> {
    const text = JSON.stringify(body)
    for (let attempt = 0;; attempt++) {
      const isGathered = gathers && this.isGathering(eventsUrl) && text.length <= batchLength
      if (gathers && !isGathered) this.#gatheredAt = performance.now()
      const answer = await (isGathered ? this.#gather(eventsUrl, text, signal) : this.#attempt(eventsUrl, text, signal))
      if ("verdict" in answer) return answer
      await sleep(Math.max(backoff(attempt, delays), answer.retryAfter), signal)
    }
  }

  #gather(url: string, text: string, signal: AbortSignal): Promise<Answer | Failed> {
    if (this.#gathered.length === 0) {
      setTimeout(() => this.#sendGathered(), Math.max(0, this.#gatheredAt + interval - performance.now()))
    }
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const abort = () => reject(signal.reason)
      signal.addEventListener("abort", abort)
      this.#gathered.push({
        url,
        text,
        signal,
        resolve: (answer) => {
          signal.removeEventListener("abort", abort)
          resolve(answer)
        }
      })
    })
  }

  /** A request may overtake an earlier one: each run has one event in flight. */
  #sendGathered() {
    this.#gatheredAt = performance.now()
    let batch: Array<Gathered> = []
    let length = 0
    for (const one of this.#gathered.filter(({ signal }) => !signal.aborted)) {
      if (length + one.text.length > batchLength || one.url !== batch[0]?.url) {
        void this.#sendBatch(batch)
        batch = []
        length = 0
      }
      batch.push(one)
      length += one.text.length + 1
    }
    this.#gathered = []
    void this.#sendBatch(batch)
  }

  async #sendBatch(batch: ReadonlyArray<Gathered>) {
    const [first, ...others] = batch
    if (first === undefined) return
    const { signal, text, url } = first
    // An event that was aborted meanwhile has been rejected.
    if (others.length === 0) return first.resolve(await this.#attempt(url, text, signal).catch(() => failed))
    const body = `{"events":[${batch.map((one) => one.text).join(",")}]}`
    const answer = await this.#attempt(url, body, new AbortController().signal)
    if (!("verdict" in answer)) return batch.forEach(({ resolve }) => resolve(answer))
    const results = answer.body["results"]
    const isKnown = Array.isArray(results)
    // Another version may answer at this URL by now.
    if (!isKnown) this.#liveUrl = undefined
    for (const [index, { resolve }] of batch.entries()) {
      const result = isKnown ? resultOf(results[index]) : undefined
      if (result?.verdict === "invalid") this.#refused(JSON.stringify(result.body))
      resolve(result ?? failed)
    }
  }

  async #attempt(url: string, body: string, caller: AbortSignal): Promise<Answer | Failed> {
    const controller = new AbortController()
    const abort = () => controller.abort(caller.reason)
    if (caller.aborted) abort()
    caller.addEventListener("abort", abort)
    const timer = setTimeout(
      () => controller.abort(new Error(`no answer in ${attemptTimeout / 1000} s`)),
      attemptTimeout
    )
    try {
      const response = await this.#options.fetch(url, {
        method: "POST",
        headers: { authorization: `Bearer ${this.#options.token}`, "content-type": "application/json" },
        body,
        redirect: "error",
        signal: controller.signal
      })
      const text = await response.text()
      const verdict = verdictOf(response.status)
      if (verdict === undefined) return this.#failed(url, response.status, response.headers.get("retry-after"))
      if (this.#isFailing) this.#options.log.info(`The service at ${new URL(url).origin} answers events again`)
      this.#isFailing = false
      if (verdict === "invalid") this.#refused(`${response.status} ${text}`)
      const fields = parse(text)
      if ("next" in fields) this.#liveUrl = url
      return { verdict, body: fields }
    } catch (error) {
      if (caller.aborted) throw caller.reason
      return this.#failed(url, error, null)
    } finally {
      clearTimeout(timer)
      caller.removeEventListener("abort", abort)
    }
  }

  #refused(answer: string) {
    this.#options.log.error(`The service refuses an event: ${answer}`)
  }

  #failed(url: string, problem: unknown, retryAfter: string | null) {
    if (!this.#isFailing) {
      const { origin } = new URL(url)
      const cause = problem instanceof Error ? problem.cause ?? problem : `status ${String(problem)}`
      const advice = problem === 401 || problem === 403
        ? ": CORE_EVENT_TOKENS, or else INTERNAL_TOKENS, has to be the same here and there"
        : ""
      this.#options.log.error(`Events do not reach ${origin} and are repeated${advice}`, cause)
    }
    this.#isFailing = true
    const seconds = Number(retryAfter ?? 0)
    return { retryAfter: Number.isFinite(seconds) ? Math.min(seconds * 1000, maxRetryAfter) : 0 }
  }
}
