/** Sends one call to the service with token, timeout, cancellation and retries. */
import { AbortError, ApiError, ConnectionError, fromResponse, TaskServiceError, TimeoutError } from "./ApiErrors.ts"

export interface ClientOptions {
  /** Base URL of the service, as in `https://tasks.example.com`. */
  readonly baseUrl: string
  /** The user's JWT, or a function that returns one for each request. */
  readonly token: string | (() => string | Promise<string>)
  /** Maximum number of retries of a failed request. Default: 2. */
  readonly maxRetries?: number
  /** Timeout of each attempt in milliseconds. Default: 60,000. Does not apply to uploads and streams. */
  readonly timeout?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly fetch?: typeof globalThis.fetch
}

/** Options of one call. They override those of the client. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  readonly timeout?: number | undefined
  readonly maxRetries?: number | undefined
  /** With the same key, a repeated request takes effect once. Generated when absent. */
  readonly idempotencyKey?: string | undefined
}

export interface Call extends CallOptions {
  readonly method: "GET" | "POST"
  readonly path: string
  readonly body?: BodyInit | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** The body is a stream, which cannot be sent twice: no retries. */
  readonly isStream?: boolean | undefined
}

const isRetryable = (status: number) => status === 408 || status === 429 || status >= 500

/** Milliseconds: the first and the longest delay before a retry. */
const retryDelay = { first: 500, maximum: 8000 }
/** Milliseconds: a longer `Retry-After` is ignored. */
const maxRetryAfter = 60_000

/** The delay of a `Retry-After` header, in seconds or as an HTTP date, converted to milliseconds. */
const retryAfter = (headers: Headers): number | undefined => {
  const given = headers.get("retry-after")
  if (given === null) return undefined
  const delay = /^\d+$/.test(given) ? Number(given) * 1000 : Date.parse(given) - Date.now()
  return delay >= 0 && delay <= maxRetryAfter ? delay : undefined
}

/** Capped exponential backoff in milliseconds. Jitter of ± 25 % keeps clients from retrying in lockstep. */
export const backoff = (attempt: number, { first, maximum }: { readonly first: number; readonly maximum: number }) =>
  Math.min(maximum, first * 2 ** attempt) * (0.75 + Math.random() / 2)

/** 128 random bits in hex. Browsers offer `crypto.randomUUID` only on secure origins. */
export const randomId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")

/** Resolves after the delay; rejects with an `AbortError` when the signal aborts. */
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

export const connectionFailed = "The service could not be reached or closed the connection"

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

  /** Resolves to the parsed JSON body. */
  async json<A>(call: Call): Promise<A> {
    return this.#attempts(call, (response) => response.json())
  }

  /** Resolves at the response headers; the caller reads the body. There is no timeout. */
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

  /** Makes one attempt. The timeout includes reading the response body. */
  async #once<A>(call: Call, read: (response: Response) => Promise<A>): Promise<A> {
    const { signal } = call
    const timeout = call.timeout ?? this.#options.timeout ?? 60_000
    const timer = Number.isFinite(timeout) ? AbortSignal.timeout(timeout) : undefined
    try {
      const response = await this.#fetch(this.url(call.path), {
        method: call.method,
        headers: await this.headers(call.headers),
        signal: AbortSignal.any([signal, timer].filter((each) => each !== undefined)),
        ...(call.body === undefined ? {} : { body: call.body }),
        ...(call.isStream === true ? { duplex: "half" } : {})
      })
      if (!response.ok) throw fromResponse(response.status, await response.text(), response.headers)
      return await read(response)
    } catch (error) {
      if (signal?.aborted === true) throw new AbortError("The call was aborted", { cause: signal.reason })
      if (error instanceof TaskServiceError) throw error
      if (timer?.aborted === true) throw new TimeoutError(`No response within ${timeout} ms`, { cause: error })
      throw new ConnectionError(connectionFailed, { cause: error })
    }
  }
}

const delayAfter = (error: unknown, attempt: number): number | undefined => {
  if (error instanceof ConnectionError) return backoff(attempt, retryDelay)
  if (!(error instanceof ApiError) || !isRetryable(error.status)) return undefined
  return retryAfter(error.headers) ?? backoff(attempt, retryDelay)
}
