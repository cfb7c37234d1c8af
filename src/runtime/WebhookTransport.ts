/**
 * Posts webhooks over undici: to the very addresses that were resolved and checked, over TLS 1.2 or later, verified, in
 * HTTP/1.1. It follows no redirect, tries nothing twice, adds no header, unpacks nothing, and reads little of an answer.
 */
import { type Dispatcher, Pool } from "@effect/platform-node/Undici"
import { Duration, Effect, Layer } from "effect"
import { isIP } from "node:net"
import { unescape } from "node:querystring"
import * as Limits from "../domain/Limits.ts"
import type { AttemptError } from "../domain/Webhook.ts"
import { Settings } from "../services/Settings.ts"
import { NoAnswer, WebhookSender } from "../services/WebhookSender.ts"
import type { Resolver } from "./WebhookResolver.ts"

/** A connection that has nothing to do is kept this long, in milliseconds: targets close theirs soon, too. */
const keepAlive = 2000

/** How long the rest of an answer is waited for once its status is known, in milliseconds. */
const remainderTimeout = 1000

/** Connections to one place; those that an answer still drips on are among them. */
const connections = 64

type Headers = Readonly<Record<string, string>>

/** What a URL says before its host. */
const credentialsOf = ({ password, username }: URL): Headers => {
  if (username === "" && password === "") return {}
  const credentials = Buffer.from(`${unescape(username)}:${unescape(password)}`)
  return { authorization: `Basic ${credentials.toString("base64")}` }
}

const codeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return ""
  if (error instanceof AggregateError) return codeOf(error.errors[0])
  return "code" in error && typeof error.code === "string" ? error.code : codeOf(error.cause)
}

const classify = (error: unknown): AttemptError => {
  const code = codeOf(error)
  if (code === "UND_ERR_CONNECT_TIMEOUT" || code === "ETIMEDOUT") return "timed_out"
  const isBroken = error instanceof Error && error.name === "HTTPParserError"
  if (isBroken || /^UND_ERR_(HEADERS_OVERFLOW|RES_CONTENT_LENGTH_MISMATCH)/.test(code)) return "broken_answer"
  if (/CERT|TLS|SSL|SIGNATURE|^EPROTO$/.test(code)) return "tls_failed"
  return "connection_failed"
}

interface Place {
  readonly pool: Pool
  inFlight: number
}

/** `authority` is the only certificate authority to trust, when given. */
export const layer = (resolver: Resolver, authority?: string) =>
  Layer.effect(
    WebhookSender,
    Effect.gen(function*() {
      const { webhookTimeout } = yield* Settings
      const places = new Map<string, Place>()
      yield* Effect.addFinalizer(() =>
        Effect.promise(() => Promise.all([...places.values()].map(({ pool }) => pool.destroy())))
      )

      const makePool = (origin: string, addresses: ReadonlyArray<string>) =>
        new Pool(origin, {
          allowH2: false,
          connections,
          pipelining: 1,
          keepAliveTimeout: keepAlive,
          keepAliveMaxTimeout: keepAlive,
          maxHeaderSize: Limits.webhookAnswerBytes,
          // One clock holds over all of it, and it is the caller's.
          headersTimeout: 0,
          bodyTimeout: 0,
          connect: {
            timeout: Duration.toMillis(webhookTimeout),
            minVersion: "TLSv1.2",
            ...(authority === undefined ? {} : { ca: authority }),
            autoSelectFamily: true,
            lookup: (_, __, callback) =>
              callback(null, addresses.map((address) => ({ address, family: isIP(address) })))
          }
        })

      const enter = (key: string, origin: string, addresses: ReadonlyArray<string>): Place => {
        const place = places.get(key) ?? { pool: makePool(origin, addresses), inFlight: 0 }
        places.set(key, place)
        place.inFlight += 1
        return place
      }

      const leave = (key: string, place: Place) => {
        place.inFlight -= 1
        if (place.inFlight > 0) return
        setTimeout(() => {
          if (place.inFlight > 0 || places.get(key) !== place) return
          places.delete(key)
          void place.pool.destroy()
        }, keepAlive).unref()
      }

      const dispatch = (key: string, url: URL, addresses: ReadonlyArray<string>, headers: Headers, body: Uint8Array) =>
        Effect.callback<number, NoAnswer>((resume) => {
          const place = enter(key, url.origin, addresses)
          let controller: Dispatcher.DispatchController | undefined
          let isWanted = true
          let received = 0
          let clock: NodeJS.Timeout | undefined
          const breakOff = () => controller?.abort(new Error("no longer wanted"))
          const end = (error: AttemptError) => {
            clearTimeout(clock)
            leave(key, place)
            // Without effect once the status is known.
            resume(Effect.fail(new NoAnswer({ error })))
          }
          place.pool.dispatch({ path: url.pathname + url.search, method: "POST", headers, body }, {
            onRequestStart: (started) => {
              controller = started
              if (!isWanted) breakOff()
            },
            onResponseStart: (_, status) => {
              if (status < 200) return
              // SPEC: the status decides. What follows is read for the sake of the connection only.
              resume(Effect.succeed(status))
              clock = setTimeout(breakOff, remainderTimeout)
            },
            onResponseData: (_, chunk) => {
              received += chunk.length
              if (received > Limits.webhookAnswerBytes) breakOff()
            },
            onResponseEnd: () => end("broken_answer"),
            onResponseError: (_, error) => end(classify(error))
          })
          return Effect.sync(() => {
            isWanted = false
            breakOff()
          })
        })

      return WebhookSender.of({
        post: Effect.fnUntraced(function*(address, headers, body) {
          const url = new URL(address)
          const addresses = yield* resolver.resolve(url.hostname)
          const key = [url.origin, ...addresses.toSorted()].join(" ")
          return yield* dispatch(key, url, addresses, { ...credentialsOf(url), ...headers }, body)
        })
      })
    })
  )
