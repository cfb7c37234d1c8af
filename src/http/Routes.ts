/** All routes, for code that needs the route of a request outside the router. */
import { Function } from "effect"
import type { HttpServerRequest } from "effect/http"
import { type Audience, isServed } from "./Audience.ts"
import { Api } from "./contract/Api.ts"
import { routes as liveRoutes } from "./contract/LiveProtocol.ts"
import { path as rpcPath } from "./contract/rpc/Rpc.ts"
import { type ExtensionRoutes, type Route, routesOf } from "./ExtensionRoutes.ts"

interface KnownRoute extends Route {
  readonly pattern: RegExp
}

/** A path with parameters has any text in their places, and may end with a slash. */
const patternOf = (path: string) => new RegExp(`^${path.replace(/\/\*$/, "(/.*)?").replace(/:[^/]+/g, "[^/]+")}/?$`)

const withPattern = ({ method, path }: Route): KnownRoute => ({
  method,
  path: path.replace(/\/\*$/, ""),
  pattern: patternOf(path)
})

const pages = ["/healthz", "/readyz", "/openapi.json", "/docs", "/llms.txt", "/internal/openapi.json", "/internal/docs"]

const coreRoutes: ReadonlyArray<KnownRoute> = [
  ...pages.map((path) => ({ method: "GET", path })),
  ...["GET", "POST"].map((method) => ({ method, path: rpcPath })),
  ...liveRoutes,
  ...Object.values(Api.groups).flatMap((group) => Object.values(group.endpoints))
].map(withPattern)

/** Their patterns are made once: every request to an unknown path, also of a stranger, is compared with all of them. */
const singleMethodRoutes = Function.memoize((extensions: ReadonlyArray<ExtensionRoutes>) => [
  ...coreRoutes,
  ...extensions.filter(({ answersAllMethods }) => answersAllMethods !== true).flatMap(routesOf).map(withPattern)
])

export const allowedMethods = (
  extensions: ReadonlyArray<ExtensionRoutes>,
  path: string,
  audience: typeof Audience.Service
): ReadonlyArray<string> => {
  const matching = singleMethodRoutes(extensions).filter((route) =>
    route.pattern.test(path) && isServed(extensions, audience, route.path)
  )
  return [...new Set(matching.flatMap(({ method }) => method === "GET" ? [method, "HEAD"] : [method]))]
}

/** The path of a request without its query. */
export const pathOf = (request: HttpServerRequest.HttpServerRequest): string => request.url.split("?", 1)[0] ?? "/"

/** Letters, digits, `-`, `.`, `_` and `~`, which no client has to encode. */
const allNeedlesslyEncoded = /%(2[de]|3\d|[46][1-9a-f]|[57][\da]|5f|7e)/gi
/** One of them, or NUL, which no name has: Postgres cannot store it. */
const unusual = new RegExp(`${allNeedlesslyEncoded.source}|%00`, "i")
const uuids = /[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/gi

/** The same for all paths that name the same resource. */
export const canonicalPath = (path: string): string =>
  path.replace(/\/$/, "").replace(allNeedlesslyEncoded, decodeURIComponent).replace(uuids, (uuid) => uuid.toLowerCase())

/** The part that the router does not compare begins with one of these. */
const ignored = /[;#]/

const isWithin = (path: string, start: string) => path === start || path.startsWith(`${start}/`)

/**
 * True if the path of a request is no route although the router would serve it: it has what the router cuts off, or it is one for
 * operators or other services, with NUL or in another spelling, for whose prefix a rule of a proxy did not match.
 */
export const isMisspelled = (
  extensions: ReadonlyArray<ExtensionRoutes>,
  request: HttpServerRequest.HttpServerRequest
): boolean => {
  const path = pathOf(request)
  if (ignored.test(path)) return true
  if (!unusual.test(path)) return false
  const decoded = path.replace(/%[\da-f]{2}/gi, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)))
  return ["/internal", rpcPath, ...extensions.flatMap(({ sameOrigin = [] }) => sameOrigin)].some((start) =>
    isWithin(decoded, start)
  )
}

/** True if no web page of another origin may call the path of a request. */
export const isSameOriginOnly = (
  extensions: ReadonlyArray<ExtensionRoutes>,
  request: HttpServerRequest.HttpServerRequest
): boolean => {
  const path = pathOf(request)
  return extensions.some(({ sameOrigin = [] }) => sameOrigin.some((own) => isWithin(path, own)))
}

/** Returns the span name of a request by OpenTelemetry's convention: the method and the route. */
export const spanNames = (extensions: ReadonlyArray<ExtensionRoutes>) => {
  const known = [...coreRoutes, ...extensions.flatMap(routesOf).map(withPattern)]
  return (request: HttpServerRequest.HttpServerRequest): string => {
    const path = pathOf(request)
    const method = request.method === "HEAD" ? "GET" : request.method
    const route = known.find((known) => known.method === method && known.pattern.test(path))
    return route === undefined ? request.method : `${request.method} ${route.path}`
  }
}

/** False for probes and scrapes, which machines send continuously. */
export const isWorthATrace = (request: HttpServerRequest.HttpServerRequest): boolean =>
  !/^\/(healthz|readyz|internal\/metrics)\/?$/.test(pathOf(request))
