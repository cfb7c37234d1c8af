/** Serves a core by `node:http`, which Bun and Deno have too, until the process is told to end. */
import { randomId } from "../promise/Transport.ts"
import { consoleLog, createCore, environment, tokensOf } from "./Core.ts"
import type { CoreOptions } from "./CoreTypes.ts"

export interface ServeOptions extends CoreOptions {
  /** Default: the environment's `PORT`, or 3001. 0 is any free port. */
  readonly port?: number | undefined
  /** Default: the environment's `HOST`, or 127.0.0.1. In a container 0.0.0.0. */
  readonly host?: string | undefined
  /** SIGTERM and SIGINT drain the core and end the process. Default: true. */
  readonly handleSignals?: boolean | undefined
}

export interface ServedCore {
  readonly url: string
  readonly port: number
  /** Drains, and closes the server. */
  readonly close: (options?: { readonly drainSeconds?: number }) => Promise<void>
}

/** The parts of Node that are used, so that the package needs no types of Node. */
interface NodeRequest extends AsyncIterable<Uint8Array> {
  readonly method?: string
  readonly url?: string
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  readonly complete: boolean
}
interface NodeResponse {
  readonly writeHead: (status: number, headers: Record<string, string>) => NodeResponse
  readonly end: (body: string) => void
}
interface NodeServer {
  readonly once: (event: "error", listener: (error: Error) => void) => void
  readonly listen: (port: number, host: string, listener: () => void) => void
  readonly address: () => { readonly port: number }
  readonly close: (listener: () => void) => void
  readonly closeIdleConnections?: () => void
}
interface NodeHttp {
  readonly createServer: (
    options: object,
    listener: (request: NodeRequest, response: NodeResponse) => void
  ) => NodeServer
}
interface NodeProcess {
  readonly on: (signal: string, listener: () => void) => void
  readonly off: (signal: string, listener: () => void) => void
  readonly exit: (code: number) => void
}

/** Modules of Node by names that no bundler resolves. */
const load = (name: string): Promise<unknown> => import(/* @vite-ignore */ /* webpackIgnore: true */ `node:${name}`)

// Absent in browsers and Deno.
const nodeProcess = () => (globalThis as { process?: NodeProcess }).process

const toStream = (request: NodeRequest) => {
  const chunks = request[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const { done, value } = await chunks.next()
      if (done === true) controller.close()
      else controller.enqueue(value)
    }
  })
}

const toRequest = (request: NodeRequest): Request => {
  const { headers, method = "GET", url = "/" } = request
  const given = new Headers()
  for (const name of ["authorization", "content-type", "content-length"]) {
    const value = headers[name]
    if (typeof value === "string") given.set(name, value)
  }
  const hasBody = method !== "GET" && method !== "HEAD"
  const path = url.startsWith("/") ? url : "/"
  // Some types do not know `duplex`, which a stream requires.
  const init: object = hasBody
    ? { method, headers: given, body: toStream(request), duplex: "half" }
    : { method, headers: given }
  return new Request(`http://core${path}`, init)
}

/** Outside of production tokens are generated, so that the first try needs no setting. */
const withTokens = (options: ServeOptions) => {
  const { eventToken, tokens } = tokensOf(options)
  if (environment()["NODE_ENV"] === "production" || (tokens.length > 0 && eventToken !== undefined)) return { options }
  const generated = { token: tokens.length > 0 ? tokens : [randomId()], eventToken: eventToken ?? randomId() }
  return { options: { ...options, ...generated }, generated }
}

/** A worker of `node:cluster` shares its URL with others. */
const isOneOfSeveral = async (): Promise<boolean> => {
  try {
    // Node's module, which has no types in a browser.
    const { default: cluster } = await load("cluster") as { default?: { isWorker?: boolean } }
    return cluster?.isWorker === true
  } catch {
    return false
  }
}

/** Resolves when the core listens, and rejects when it cannot. */
export const serveCore = async (given: ServeOptions): Promise<ServedCore> => {
  const env = environment()
  const { generated, options } = withTokens(given)
  const {
    handleSignals = true,
    host = env["HOST"] ?? "127.0.0.1",
    log = consoleLog,
    port = Number(env["PORT"] ?? 3001)
  } = options
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new TypeError("PORT must be a port number")
  const isDeclared = options.silenceSeconds !== undefined || options.replicated === true || !await isOneOfSeveral()
  const core = createCore(isDeclared ? options : { ...options, silenceSeconds: null })
  // The part of Node's module that is used.
  const { createServer } = await load("http") as NodeHttp

  const server = createServer({ requestTimeout: 60_000, headersTimeout: 15_000 }, (request, response) => {
    const answer = async () => {
      const answered = await core.fetch(toRequest(request))
      // A body that was not read must not be taken for the next request.
      const connection = request.complete ? {} : { connection: "close" }
      response.writeHead(answered.status, { ...Object.fromEntries(answered.headers), ...connection })
        .end(await answered.text())
    }
    answer().catch((error: unknown) => {
      log.error("A request could not be answered", error)
      response.writeHead(400, { connection: "close" }).end("")
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject)
    server.listen(port, host, resolve)
  })
  const { port: listening } = server.address()
  const shown = ["0.0.0.0", "::"].includes(host) ? "127.0.0.1" : host.includes(":") ? `[${host}]` : host
  const url = `http://${shown}:${listening}`

  const close: ServedCore["close"] = async (closing) => {
    await core.close(closing)
    const closed = new Promise<void>((resolve) => server.close(resolve))
    server.closeIdleConnections?.()
    await closed
  }
  const signaled = nodeProcess()
  if (handleSignals && signaled !== undefined) {
    let isEnding = false
    const end = () => {
      if (isEnding) signaled.exit(1)
      isEnding = true
      log.info("The core takes no more runs and waits for those in progress")
      void close().finally(() => signaled.exit(0))
    }
    signaled.on("SIGTERM", end)
    signaled.on("SIGINT", end)
  }
  log.info(`The core listens on ${url}, for ${options.runs ?? 16} runs at a time. Settings of the service:`)
  log.info(
    generated === undefined
      ? `  CORE_URL=${url}, and CORE_TOKEN and CORE_EVENT_TOKENS as here`
      : `  CORE_URL=${url} CORE_TOKEN=${generated.token[0]} CORE_EVENT_TOKENS=${generated.eventToken}`
  )
  return { url, port: listening, close }
}
