/** Sends the events of runs to the service, each until it is answered. */
import { backoff, sleep } from "../promise/Transport.ts"
import type { CoreLog } from "./CoreTypes.ts"

/** What the service makes of an event: `unwanted` means that the run is over, `invalid` that it cannot read the event. */
export type Verdict = "accepted" | "unwanted" | "invalid"

export interface Answer {
  readonly verdict: Verdict
  /** The fields of the answer; empty when it is no JSON object. */
  readonly body: { readonly [field: string]: unknown }
}

/** What names the run of an event, and where it goes. */
export interface Address {
  readonly taskId: string
  readonly runId: string
  readonly eventsUrl: string
}

/** Milliseconds. */
const attemptTimeout = 15_000
const delays = { first: 100, maximum: 5000 }
const maxRetryAfter = 30_000

export const numbersOf = (value: unknown): number | undefined => typeof value === "number" ? value : undefined

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

interface EventsOptions {
  readonly token: string
  readonly fetch: typeof globalThis.fetch
  readonly log: CoreLog
}

export class Events {
  readonly #options: EventsOptions
  /** Whether the last attempt failed: an outage is logged once. */
  #isFailing = false

  constructor(options: EventsOptions) {
    this.#options = options
  }

  /** Sends an event until it is answered. Rejects when the signal aborts. The body keeps its `event_id`. */
  async send(eventsUrl: string, body: object, signal: AbortSignal): Promise<Answer> {
    const text = JSON.stringify(body)
    for (let attempt = 0;; attempt++) {
      const answer = await this.#attempt(eventsUrl, text, signal)
      if ("verdict" in answer) return answer
      await sleep(Math.max(backoff(attempt, delays), answer.retryAfter), signal)
    }
  }

  async #attempt(url: string, body: string, caller: AbortSignal): Promise<Answer | { readonly retryAfter: number }> {
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
      if (verdict === "invalid") this.#options.log.error(`The service refuses an event: ${response.status} ${text}`)
      return { verdict, body: parse(text) }
    } catch (error) {
      if (caller.aborted) throw caller.reason
      return this.#failed(url, error, null)
    } finally {
      clearTimeout(timer)
      caller.removeEventListener("abort", abort)
    }
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
