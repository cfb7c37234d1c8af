/** One call to the service: token, time limit, cancellation, and retries of what may be tried again. */
import { AbortError, type ApiError, ConnectionError, fromAnswer, TaskServiceError, TimeoutError } from "./ApiErrors.ts"

export interface ClientOptions {
  /** Base URL of the service, as in `https://tasks.example.com`. */
  readonly baseUrl: string
  /** The user's JWT, or what finds a fresh one for each request. */
  readonly token: string | (() => string | Promise<string>)
  /** How often a failed request is tried again; 2 by default. */
  readonly maxRetries?: number
  /** Milliseconds that the service has to answer one attempt; a minute by default. Uploads and streams have none. */
  readonly timeout?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly fetch?: typeof globalThis.fetch
}

/** What may be set for one call. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  readonly timeout?: number | undefined
  readonly maxRetries?: number | undefined
  /** Names the request, so that it takes effect once however often it is sent; made up when absent. */
  readonly idempotencyKey?: string | undefined
}

export interface Call extends CallOptions {
  readonly method: "GET" | "POST"
  readonly path: string
  readonly body?: BodyInit | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Statuses that are an answer although they are no success. */
  readonly accepts?: ReadonlyArray<number> | undefined
  /** For bodies that are sent as they are read. */
  readonly isStream?: boolean | undefined
}

const isRetryable = (status: number) => status === 408 || status === 429 || status >= 500

const [firstDelay, maxDelay, maxRetryAfter] = [500, 8000, 60_000]

/** Milliseconds, from either form of `Retry-After`. */
const retryAfter = (headers: Headers): number | undefined => {
  const given = headers.get("retry-after")
  if (given === null) return undefined
  const delay = /^\d+$/.test(given) ? Number(given) * 1000 : Date.parse(given) - Date.now()
  return delay >= 0 && delay <= maxRetryAfter ? delay : undefined
}

/** Doubles with each attempt and varies by a quarter, so that clients do not come back all at once. */
const backoff = (attempt: number) => Math.min(maxDelay, firstDelay * 2 ** attempt) * (0.75 + Math.random() / 2)

/** Unlike `randomUUID`, this is there on pages without TLS too. */
export const randomName = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")

/** Pauses; the signal cuts it short. */
export const sleep = (milliseconds: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer)
      reject(new AbortError("The call was aborted", { cause: signal?.reason }))
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort)
      resolve()
    }, milliseconds)
    if (signal?.aborted === true) abort()
    else signal?.addEventListener("abort", abort, { once: true })
  })

export class Transport {
  readonly #options: ClientOptions
  readonly #fetch: typeof globalThis.fetch

  constructor(options: ClientOptions) {
    if (!/^https?:\/\//.test(options.baseUrl)) throw new TaskServiceError("baseUrl must be an http or https URL")
    this.#options = options
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis)
  }

  url(path: string) {
    return this.#options.baseUrl.replace(/(?<!\/)\/+$/, "") + path
  }

  async headers(more: Readonly<Record<string, string>> = {}): Promise<Record<string, string>> {
    const { token } = this.#options
    return {
      accept: "application/json",
      ...this.#options.headers,
      ...more,
      authorization: `Bearer ${typeof token === "string" ? token : await token()}`
    }
  }

  /** The parsed JSON of the answer. */
  async json<A>(call: Call): Promise<A> {
    return this.#attempts(call, async (response) => await response.json() as A)
  }

  /** The answer with its body still to be read; its time is not limited. */
  open(call: Call): Promise<Response> {
    return this.#attempts({ ...call, timeout: Infinity }, (response) => Promise.resolve(response))
  }

  async #attempts<A>(call: Call, read: (response: Response) => Promise<A>): Promise<A> {
    const maxRetries = call.isStream === true ? 0 : call.maxRetries ?? this.#options.maxRetries ?? 2
    for (let attempt = 0;; attempt++) {
      try {
        return await this.#once(call, read)
      } catch (error) {
        const delay = attempt < maxRetries ? delayAfter(error, attempt) : undefined
        if (delay === undefined) throw error
        await sleep(delay, call.signal)
      }
    }
  }

  /** One attempt. Its time limit covers the reading of the answer. */
  async #once<A>(call: Call, read: (response: Response) => Promise<A>): Promise<A> {
    const { signal } = call
    const timeout = call.timeout ?? this.#options.timeout ?? 60_000
    const controller = new AbortController()
    const abort = () => controller.abort(signal?.reason)
    if (signal?.aborted === true) abort()
    signal?.addEventListener("abort", abort, { once: true })
    let isLate = false
    const timer = Number.isFinite(timeout)
      ? setTimeout(() => {
        isLate = true
        controller.abort()
      }, timeout)
      : undefined
    let response: Response | undefined
    try {
      response = await this.#fetch(this.url(call.path), {
        method: call.method,
        headers: await this.headers(call.headers),
        signal: controller.signal,
        ...(call.body === undefined ? {} : { body: call.body }),
        ...(call.isStream === true ? { duplex: "half" } : {})
      })
      if (!response.ok && call.accepts?.includes(response.status) !== true) {
        throw fromAnswer(response.status, await response.text(), response.headers)
      }
      return await read(response)
    } catch (error) {
      if (signal?.aborted === true) throw new AbortError("The call was aborted", { cause: signal.reason })
      if (isLate) throw new TimeoutError(`No answer within ${timeout} ms`, { cause: error })
      if (error instanceof TaskServiceError) throw error
      throw new ConnectionError("The service could not be reached, or broke off its answer", { cause: error })
    } finally {
      clearTimeout(timer)
      // A stream goes on after this and keeps the signal.
      if (response === undefined || Number.isFinite(timeout)) signal?.removeEventListener("abort", abort)
    }
  }
}

const delayAfter = (error: unknown, attempt: number): number | undefined => {
  if (error instanceof ConnectionError) return backoff(attempt)
  const { headers, status } = error as Partial<ApiError>
  if (headers === undefined || status === undefined || !isRetryable(status)) return undefined
  return retryAfter(headers) ?? backoff(attempt)
}
