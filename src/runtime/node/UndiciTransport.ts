/**
 * The transport of calls that every task needs, on undici's dispatcher. It takes a quarter of the CPU time of Effect's general HTTP
 * client (`npm run bench`).
 */
import { Duration, Effect, Layer } from "effect"
import { Readable } from "node:stream"
import { CoreUnavailable } from "../../domain/DispatchRetry.ts"
import { sizeOf } from "../../domain/json/OpaqueJson.ts"
import { type CoreResponse, CoreTransport } from "../../services/core/CoreClient.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"
import * as Outgoing from "./Outgoing.ts"
import { find, Proxies, targetOf } from "./Proxies.ts"
import { exchange } from "./UndiciExchange.ts"

/** Bytes of a response body after which the call is aborted. */
const maxAnswerBytes = 64 * 1024

/** Bytes of a response body that is read: a declaration, or a token. Of a longer one nothing is used. */
const maxReadBytes = 16 * 1024

const connections = 256

const callTimeout = Duration.toMillis("10 seconds")

const connectTimeout = Duration.seconds(5)

const unavailable = (reason: string) => Effect.fail(new CoreUnavailable({ reason, retryAfter: null }))

const first = (header: string | ReadonlyArray<string> | undefined) => typeof header === "object" ? header[0] : header

export const layer = Layer.effect(
  CoreTransport,
  Effect.gen(function*() {
    const dispatcher = yield* Outgoing.makeDispatcher({ connections })

    // Nearly all calls start a run, at one URL.
    let latest = new URL("http://localhost")
    let latestText = ""
    const parse = (url: string) => {
      if (url !== latestText) {
        latest = new URL(url)
        latestText = url
      }
      return latest
    }

    const proxies = yield* Proxies
    const connector = Outgoing.makeConnector({ proxies, timeout: connectTimeout })

    return CoreTransport.of({
      connect: (url) =>
        Effect.callback<void, CoreUnavailable>((resume) => {
          const { host, hostname, port, protocol } = new URL(url)
          const target = targetOf({ hostname, port, protocol })
          // Calls are forwarded there, and many proxies refuse the tunnel that a connection needs: only a call can tell.
          if (protocol === "http:" && find(proxies, target) !== undefined) return resume(Effect.void)
          connector({ host, hostname: target.hostname, port, protocol }, (error, socket) => {
            socket?.destroy()
            resume(error === null ? Effect.void : unavailable(rootCauseMessage(error)))
          })
        }),
      post: (url, headers, body) =>
        Effect.callback<CoreResponse, CoreUnavailable>((resume) => {
          const { origin, pathname, search } = parse(url)
          const [start, ...more] = body
          let answer: { readonly status: number; readonly retryAfter: string | undefined } | undefined
          let text = ""
          let received = 0
          const request = {
            origin,
            path: pathname + search,
            method: "POST",
            headers: { "content-type": "application/json", "content-length": String(sizeOf(body)), ...headers },
            // A large body is sent from the pieces, without a copy.
            body: start !== undefined && more.length === 0 ? start : Readable.from(body)
          } as const
          const timer = setTimeout(() => {
            abort("timeout")
            if (answer === undefined) resume(unavailable("timeout"))
          }, callTimeout)
          const abort = exchange(dispatcher, request, Infinity, {
            onHead: (status, headers) => {
              answer = { status, retryAfter: first(headers["retry-after"]) }
            },
            onData: (chunk) => {
              received += chunk.length
              text = received > maxReadBytes ? "" : text + Buffer.from(chunk).toString("latin1")
              if (received > maxAnswerBytes) abort("the answer is too long")
            },
            onEnd: (error) => {
              clearTimeout(timer)
              if (answer === undefined) {
                return resume(unavailable(error === undefined ? "no response" : rootCauseMessage(error)))
              }
              // The status has arrived: a run that was accepted must not be sent again because the rest is long, late or cut off.
              resume(Effect.succeed({ ...answer, body: error === undefined ? text : "" }))
            }
          })
          return Effect.sync(() => {
            clearTimeout(timer)
            abort("interrupted")
          })
        })
    })
  })
)
