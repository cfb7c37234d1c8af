/**
 * Posts webhooks over undici with HTTP/1.1 and verified TLS 1.2 or later. Connects only to the addresses that were resolved
 * and checked, also through a proxy, unless the operator lets the proxy resolve names. Follows no redirects, does not retry, adds no headers, does not decompress, and bounds the response size.
 */
import { type buildConnector, Pool } from "@effect/platform-node/Undici"
import { Context, Effect, Layer } from "effect"
import { unescape } from "node:querystring"
import * as Limits from "../../domain/Limits.ts"
import type { AttemptError } from "../../domain/Webhook.ts"
import { Settings } from "../../services/settings/Settings.ts"
import { DeliveryError, WebhookSender, WebhookTargets } from "../../services/webhooks/WebhookSender.ts"
import { makeConnector } from "../node/Outgoing.ts"
import { find, Proxies, targetOf } from "../node/Proxies.ts"
import { exchange } from "../node/UndiciExchange.ts"
import type { Resolver } from "./WebhookResolver.ts"

/** Milliseconds for which an idle connection is kept. Short, because targets close idle connections too. */
const keepAlive = 2000

/** Milliseconds in which the response body must end after the status has arrived; then the connection is closed. */
const bodyTimeout = 1000

/** Maximum number of connections of one pool, including those whose response body has not ended. */
const connections = 128

type Headers = Readonly<Record<string, string>>

/** Adds basic authentication from the credentials in a URL. */
const withCredentials = ({ password, username }: URL, headers: Headers): Headers => {
  if (username === "" && password === "") return headers
  const credentials = Buffer.from(`${unescape(username)}:${unescape(password)}`)
  return { authorization: `Basic ${credentials.toString("base64")}`, ...headers }
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

/** The connections to one origin at one set of addresses. */
interface PooledTarget {
  readonly pool: Pool
  inFlight: number
}

const poolOptions = (connect: buildConnector.connector) => ({
  allowH2: false,
  connections,
  pipelining: 1,
  keepAliveTimeout: keepAlive,
  keepAliveMaxTimeout: keepAlive,
  maxHeaderSize: Limits.webhookAnswerBytes,
  // The caller's timeout covers the whole attempt.
  headersTimeout: 0,
  bodyTimeout: 0,
  connect
} satisfies Pool.Options)

/** Pools by target. An idle pool is destroyed when its connections are not kept any more. */
const makeTargets = (makePool: (origin: string, addresses: ReadonlyArray<string>) => Pool) => {
  const targets = new Map<string, PooledTarget>()
  return {
    acquire: (origin: string, addresses: ReadonlyArray<string>) => {
      const key = [origin, ...addresses.toSorted()].join(" ")
      const target = targets.get(key) ?? { pool: makePool(origin, addresses), inFlight: 0 }
      targets.set(key, target)
      target.inFlight += 1
      const release = () => {
        target.inFlight -= 1
        if (target.inFlight > 0) return
        setTimeout(() => {
          if (target.inFlight > 0 || targets.get(key) !== target) return
          targets.delete(key)
          void target.pool.destroy()
        }, keepAlive).unref()
      }
      return { pool: target.pool, release }
    },
    destroy: Effect.promise(() => Promise.all([...targets.values()].map(({ pool }) => pool.destroy())))
  }
}

/** `authority` is a CA certificate in PEM. When given, no other is trusted. */
export const layer = (resolver: Resolver, authority?: string) =>
  Layer.effectContext(
    Effect.gen(function*() {
      const { webhookTimeout } = yield* Settings
      const proxies = yield* Proxies
      const tls = { minVersion: "TLSv1.2", ...(authority === undefined ? {} : { ca: authority }) } as const
      const targets = makeTargets((origin, addresses) =>
        new Pool(origin, poolOptions(makeConnector({ proxies, timeout: webhookTimeout, addresses, tls })))
      )
      yield* Effect.addFinalizer(() => targets.destroy)

      const dispatch = (url: URL, addresses: ReadonlyArray<string>, headers: Headers, body: Uint8Array) =>
        Effect.callback<number, DeliveryError>((resume) => {
          const { pool, release } = targets.acquire(url.origin, addresses)
          const request = { path: url.pathname + url.search, method: "POST", headers, body } as const
          let timer: NodeJS.Timeout | undefined
          const abort = exchange(pool, request, Limits.webhookAnswerBytes, {
            onHead: (status) => {
              // The status alone decides the outcome. The body is read only so that the connection can be reused.
              resume(Effect.succeed(status))
              timer = setTimeout(() => abort("the response did not end"), bodyTimeout)
            },
            onEnd: (error) => {
              clearTimeout(timer)
              release()
              // The status has arrived.
              if (timer !== undefined) return
              resume(Effect.fail(new DeliveryError({ error: error === undefined ? "broken_answer" : classify(error) })))
            }
          })
          return Effect.sync(() => abort("interrupted"))
        })

      const resolve = (url: URL) => resolver.resolve(url.hostname, find(proxies, targetOf(url)) !== undefined)

      return Context.make(WebhookSender, {
        post: (address, headers, body) =>
          Effect.suspend(() => {
            const url = new URL(address)
            const sent = withCredentials(url, headers)
            return Effect.flatMap(resolve(url), (addresses) => dispatch(url, addresses, sent, body))
          })
      }).pipe(Context.add(WebhookTargets, {
        check: (address) =>
          Effect.catchIf(
            Effect.asVoid(Effect.suspend(() => resolve(new URL(address)))),
            ({ error }) => error !== "address_refused",
            () => Effect.void
          )
      }))
    })
  )
