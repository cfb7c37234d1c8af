/** Sends one call to the service with token, timeout, cancellation and retries. */
import {
  AbortError,
  ApiError,
  ConnectionError,
  fromResponse,
  RateLimitError,
  retryAfterOf,
  TaskServiceError,
  TimeoutError
} from "./ApiErrors.ts"

/** A retry that is about to happen. */
export interface Retry {
  /** Why the attempt failed. */
  readonly error: TaskServiceError
  /** From 1. */
  readonly number: number
  /** Milliseconds until the retry. */
  readonly delay: number
}

export interface ClientOptions {
  /** Base URL of the service, as in `https://tasks.example.com`. */
  readonly baseUrl: string
  /** The user's JWT, or a function that returns one for each request. */
  readonly token: string | (() => string | Promise<string>)
  /** Maximum number of retries of a failed request. Default: 2. */
  readonly maxRetries?: number
  /** Timeout of each attempt in milliseconds. Default: 60,000. Not for uploads; for `events` until its first byte. */
  readonly timeout?: number
  /**
   * Called before each retry. Without it, a warning is logged when a request waits for a second time because of a 429: the user may
   * have to end a task.
   */
  readonly onRetry?: (retry: Retry) => void
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
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  readonly path: string
  readonly body?: string | ReadableStream<Uint8Array> | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Milliseconds for which the service may hold the response, added to the timeout. */
  readonly heldFor?: number | undefined
  /** The caller closes the exchange. */
  readonly staysOpen?: boolean | undefined
  /** The body is a stream, which cannot be sent twice: no retries. */
  readonly isStream?: boolean | undefined
}

/** True if the same request may succeed later. A search that took too long takes as long again. */
export const isTransient = (error: unknown): boolean =>
  error instanceof ConnectionError ||
  (error instanceof ApiError && (error.status === 408 || error.status === 429 || error.status >= 500)
    && error.code !== "search_too_long")

/** Milliseconds: the first and the longest delay before a retry. */
const retryDelay = { first: 500, maximum: 8000 }
/** Milliseconds: a longer `Retry-After` is ignored. */
const maxRetryAfter = 60_000

/** The delay of a `Retry-After` header in milliseconds. */
const retryAfter = (headers: Headers): number | undefined => {
  const seconds = retryAfterOf(headers)
  return seconds === null || seconds * 1000 > maxRetryAfter ? undefined : seconds * 1000
}

const warn = ({ delay, error, number }: Retry) => {
  if (number < 2 || !(error instanceof RateLimitError)) return
  const text = `The task service refuses the request: ${error.message} Retry ${number} in ${Math.round(delay / 1000)} s`
  // A request that waits for long without a word looks as if it hangs.
  // @effect-diagnostics-next-line globalConsole:off
  console.warn(text) // oxlint-disable-line eslint/no-console
}

/** Capped exponential backoff in milliseconds. Jitter of ± 25 % keeps clients from retrying in lockstep. */
export const backoff = (attempt: number, { first, maximum }: { readonly first: number; readonly maximum: number }) =>
  Math.min(maximum, first * 2 ** attempt) * (0.75 + Math.random() / 2)

/**
 * The query of a path: values of a list are separated by commas, pairs are `name[key]=value`, and what is undefined or empty is left out.
 */
export const queryOf = (parameters: object): string => {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (value === undefined || (Array.isArray(value) && value.length === 0)) continue
    if (typeof value !== "object" || Array.isArray(value)) query.set(name, String(value))
    else for (const [key, text] of Object.entries(value)) query.set(`${name}[${key}]`, String(text))
  }
  return query.size === 0 ? "" : `?${query}`
}

/** Tells the options of a call from the parameters of its query. */
export const separate = <A extends CallOptions>(
  { idempotencyKey, maxRetries, signal, timeout, ...query }: A
): { readonly options: CallOptions; readonly query: Omit<A, keyof CallOptions> } => ({
  options: { idempotencyKey, maxRetries, signal, timeout },
  query
})

/** 128 random bits in hex. Browsers offer `crypto.randomUUID` only on secure origins. */
export const randomId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")

/** Resolves after the delay; rejects with an `AbortError` when the signal aborts. */
export const sleep = (milliseconds: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(aborted(signal))
    const end = (error?: AbortError) => {
      clearTimeout(timer)
      signal?.removeEventListener("abort", abort)
      if (error === undefined) resolve()
      else reject(error)
    }
    const abort = () => end(aborted(signal))
    const timer = setTimeout(end, milliseconds)
    signal?.addEventListener("abort", abort)
  })

export const aborted = (signal: AbortSignal | undefined) =>
  new AbortError("The call was aborted", { cause: signal?.reason })

/** Milliseconds: a longer timer would fire immediately. */
const maxTimer = 2 ** 31 - 1

/**
 * The signal of one attempt: aborts with the caller's signal and after a timeout. `close` removes both, because a signal of the
 * caller may live as long as the process.
 */
class Exchange {
  readonly #controller = new AbortController()
  readonly #caller: AbortSignal | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  hasTimedOut = false

  constructor(caller: AbortSignal | undefined) {
    this.#caller = caller
    if (caller?.aborted === true) this.#abort()
    caller?.addEventListener("abort", this.#abort)
  }

  get signal() {
    return this.#controller.signal
  }

  readonly #abort = () => this.#controller.abort()

  /** Starts the timeout again. Milliseconds. */
  readonly allow = (timeout: number) => {
    clearTimeout(this.#timer)
    if (timeout > maxTimer) return
    this.#timer = setTimeout(() => {
      this.hasTimedOut = true
      this.#abort()
    }, timeout)
  }

  readonly close = () => {
    clearTimeout(this.#timer)
    this.#caller?.removeEventListener("abort", this.#abort)
  }
}

/** A response whose body the caller reads. */
export interface OpenResponse {
  readonly response: Response
  /** Milliseconds from now until the connection is closed. */
  readonly allow: (timeout: number) => void
  readonly close: () => void
}

const connectionFailed = "The service could not be reached or closed the connection"

/** The origin of the page; undefined outside of browsers. */
const pageOrigin = () => typeof location === "object" ? location?.origin : undefined

export class Transport {
  readonly #options: ClientOptions
  readonly #fetch: typeof globalThis.fetch

  constructor(options: ClientOptions) {
    if (!/^https?:\/\//.test(options.baseUrl)) throw new TaskServiceError("baseUrl must be an http or https URL")
    // Programs without types often pass an environment variable that is not set.
    if (!["string", "function"].includes(typeof options.token)) {
      throw new TaskServiceError("token must be a text or a function that returns one")
    }
    this.#options = options
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis)
  }

  url(path: string) {
    return this.#options.baseUrl.replace(/(?<!\/)\/+$/, "") + path
  }

  /** A browser does not say why it refuses a response of another origin. */
  connectionError(cause?: unknown): ConnectionError {
    const origin = pageOrigin()
    const isForeign = origin !== undefined && origin !== new URL(this.#options.baseUrl).origin
    const check =
      `. If it is reachable, check that CORS_ORIGINS of the service contains ${origin}, the origin of this page`
    return new ConnectionError(connectionFailed + (isForeign ? check : ""), { cause })
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

  /** Resolves to the parsed JSON body and its `ETag`. */
  async tagged<A>(call: Call): Promise<{ readonly body: A; readonly tag: string | null }> {
    return this.#attempts(
      call,
      async (response) => ({ body: await response.json(), tag: response.headers.get("etag") })
    )
  }

  /** Resolves when the response is complete. Its body is ignored. */
  async send(call: Call): Promise<void> {
    await this.#attempts(call, (response) => response.arrayBuffer())
  }

  /** Resolves at the response headers. The caller reads the body within a timeout of its own, and closes the response. */
  open(call: Call): Promise<OpenResponse> {
    const opened = { ...call, staysOpen: true }
    return this.#attempts(opened, (response, { allow, close }) => Promise.resolve({ response, allow, close }))
  }

  async #attempts<A>(call: Call, read: (response: Response, exchange: Exchange) => Promise<A>): Promise<A> {
    const maxRetries = call.isStream === true ? 0 : call.maxRetries ?? this.#options.maxRetries ?? 2
    for (let attempt = 0;; attempt++) {
      // Outside of the attempt: an error of the caller's token function is not an error of the connection.
      const headers = await this.headers(call.headers)
      try {
        return await this.#once(call, headers, read, attempt > 0)
      } catch (error) {
        const delay = attempt < maxRetries ? delayAfter(error, attempt) : undefined
        if (delay === undefined) throw error
        const report = this.#options.onRetry ?? warn
        // Others have no delay.
        report({ error: error as TaskServiceError, number: attempt + 1, delay })
        await sleep(delay, call.signal)
      }
    }
  }

  async #once<A>(
    call: Call,
    headers: Readonly<Record<string, string>>,
    read: (response: Response, exchange: Exchange) => Promise<A>,
    isRepeated: boolean
  ): Promise<A> {
    const timeout = (call.timeout ?? this.#options.timeout ?? 60_000) + (call.heldFor ?? 0)
    const exchange = new Exchange(call.signal)
    exchange.allow(timeout)
    try {
      const response = await this.#fetch(this.url(call.path), {
        method: call.method,
        headers,
        signal: exchange.signal,
        ...(call.body === undefined ? {} : { body: call.body }),
        ...(call.isStream === true ? { duplex: "half" } : {})
      })
      // An earlier attempt deleted it, and its response was lost.
      const isDeleted = isRepeated && call.method === "DELETE" && response.status === 404
      if (!response.ok && !isDeleted) throw fromResponse(response.status, await response.text(), response.headers)
      const result = await read(response, exchange)
      if (call.staysOpen !== true) exchange.close()
      return result
    } catch (error) {
      exchange.close()
      if (call.signal?.aborted === true) throw aborted(call.signal)
      if (error instanceof TaskServiceError) throw error
      if (exchange.hasTimedOut) throw new TimeoutError(`No response within ${timeout} ms`, { cause: error })
      throw this.connectionError(error)
    }
  }
}

const delayAfter = (error: unknown, attempt: number): number | undefined => {
  if (!isTransient(error)) return undefined
  return (error instanceof ApiError ? retryAfter(error.headers) : undefined) ?? backoff(attempt, retryDelay)
}
