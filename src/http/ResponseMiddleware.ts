/** Middleware of every response: a request id, JSON errors without internals, and the headers that the status requires. */
import { Cause, Clock, Context, Effect, Fiber, Layer } from "effect"
import { HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Metrics from "../services/telemetry/Metrics.ts"
import { Audience } from "./Audience.ts"
import { codeOfStatus } from "./contract/ErrorCodes.ts"
import * as Defects from "./Defects.ts"
import { type ExtensionRoutes, Extensions } from "./ExtensionRoutes.ts"
import { allowedMethods, isMisspelled, pathOf } from "./Routes.ts"

const error = (status: number, message: string, headers?: Record<string, string>) =>
  HttpServerResponse.jsonUnsafe({ message, code: codeOfStatus(status) }, {
    status,
    ...(headers === undefined ? {} : { headers })
  })

const nothingHere = error(404, "There is nothing at this address.")

const routeNotFound = (
  extensions: ReadonlyArray<ExtensionRoutes>,
  request: HttpServerRequest.HttpServerRequest
) => {
  const path = pathOf(request)
  const allowed = allowedMethods(extensions, path, Fiber.getCurrent()?.getRef(Audience) ?? "all")
  // With an allowed method, the router refused the path itself, as with an invalid percent encoding.
  return allowed.length === 0 || allowed.includes(request.method)
    ? nothingHere
    : error(405, `${request.method} is not allowed here.`, { allow: allowed.join(", ") })
}

const isRouteNotFound = (failure: unknown) =>
  HttpServerError.isHttpServerError(failure) && failure.reason._tag === "RouteNotFound"

const failureResponse = (cause: Cause.Cause<unknown>, notFound: () => HttpServerResponse.HttpServerResponse) => {
  const failure = Cause.squash(cause)
  if (isRouteNotFound(failure)) return Effect.succeed(notFound())
  return Effect.as(Defects.log(cause), error(500, Defects.message))
}

/** The headers that a status requires; undefined for none. */
const statusHeaders = (status: number): Readonly<Record<string, string>> | undefined => {
  // An unauthenticated client must not hold a connection.
  if (status === 401) return { "www-authenticate": "Bearer", connection: "close" }
  // The rest of the request has not arrived, so the connection cannot be reused.
  if (status === 408) return { connection: "close" }
  if (status === 415) return { "accept-encoding": "identity" }
  if (status === 429 || status === 503) return { "retry-after": "5" }
  return undefined
}

const withHeaders = (response: HttpServerResponse.HttpServerResponse, requestId: string) => {
  const identified = HttpServerResponse.setHeader(response, "x-request-id", requestId)
  const headers = statusHeaders(response.status)
  // A handler may say more of them.
  return headers === undefined
    ? identified
    : HttpServerResponse.setHeaders(identified, { ...headers, ...response.headers })
}

const knownMethods = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])

/** The path of the matched route. The router leaves it in the fiber's context until the request ends. */
const matchedRoute = (): string => {
  const context = Fiber.getCurrent()?.context
  return (context && Context.getOrUndefined(context, HttpRouter.RouteContext)?.route.path) ?? "unmatched"
}

const measure = ({ method }: HttpServerRequest.HttpServerRequest, status: number, nanos: bigint) => {
  Metrics.httpResponses.add(1, `${Math.floor(status / 100)}xx`)
  Metrics.httpRequests.record(
    Number(nanos) / 1e9,
    knownMethods.has(method) ? method : "_OTHER",
    matchedRoute(),
    String(status)
  )
}

/**
 * Node joins repeated hosts with a comma. A proxy may have checked one of them and the service would use the other. HTTP/1.1
 * requires a host; HTTP/1.0 and calls within the process do not.
 */
const namesOneHost = ({ headers, source }: HttpServerRequest.HttpServerRequest) => {
  const host = headers["host"]
  return host === undefined ? Reflect.get(source, "httpVersion") !== "1.1" : /^[^\s,@/\\?#]*$/.test(host)
}

const wrongHost = error(400, "Expected one host in the Host header.", { connection: "close" })

/** A harmless request id of the client is kept, so that its logs can be matched with the service's. */
const isUsableId = (id: string | undefined): id is string => id !== undefined && /^[\w.:-]{1,128}$/.test(id)

export const layer = Layer.unwrap(
  Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const extensions = yield* Extensions
    return HttpRouter.middleware(
      (handler) =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
          const given = request.headers["x-request-id"]
          const notFound = () => routeNotFound(extensions, request)
          const requestId = isUsableId(given) ? given : crypto.randomUUID()
          const startedAt = clock.monotonicTimeNanosUnsafe()
          const handled = isMisspelled(extensions, request) ? Effect.succeed(nothingHere) : handler
          return (namesOneHost(request) ? handled : Effect.succeed(wrongHost)).pipe(
            Effect.catchCauseIf(
              (cause) => !Cause.hasInterruptsOnly(cause),
              (cause) => Effect.annotateLogs(failureResponse(cause, notFound), { requestId })
            ),
            Effect.map((result) => {
              // The handler of static files responds 404 without a body.
              const isBare = result.status === 404 && result.body._tag === "Empty"
              const response = isBare ? notFound() : result
              measure(request, response.status, clock.monotonicTimeNanosUnsafe() - startedAt)
              return withHeaders(response, requestId)
            })
          )
        }),
      { global: true }
    )
  })
)
