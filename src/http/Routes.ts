/** All routes, for code that needs the route of a request outside the router. */
import type { HttpServerRequest } from "effect/http"
import { type Audience, isServed } from "./Audience.ts"
import { Api } from "./contract/Api.ts"
import { path as rpcPath } from "./contract/rpc/Rpc.ts"
import * as OpenAiPaths from "./facades/openai/Paths.ts"

interface KnownRoute {
  readonly path: string
  readonly pattern: RegExp
  readonly method: string
}

const pages: ReadonlyArray<KnownRoute> = [
  "/healthz",
  "/readyz",
  "/openapi.json",
  "/docs",
  "/internal/openapi.json",
  "/internal/docs"
].map((path) => ({
  method: "GET",
  path,
  pattern: new RegExp(`^${path}/?$`)
}))

const consolePattern = /^\/console(\/|$)/
const sessionPath = "/internal/operator/session"

const consoleRoutes: ReadonlyArray<KnownRoute> = [
  { method: "GET", path: "/console", pattern: consolePattern },
  { method: "POST", path: "/console/dev-login", pattern: /^\/console\/dev-login$/ },
  ...["GET", "POST", "DELETE"].map((method) => ({
    method,
    path: sessionPath,
    pattern: new RegExp(`^${sessionPath}$`)
  }))
]

const rpc: ReadonlyArray<KnownRoute> = ["GET", "POST"].map((method) => ({
  method,
  path: rpcPath,
  pattern: new RegExp(`^${rpcPath}/?$`)
}))

const patternOf = (path: string) => new RegExp(`^${path.replace(/:[^/]+/g, "[^/]+")}/?$`)

const knownRoutes: ReadonlyArray<KnownRoute> = [...pages, ...consoleRoutes, ...rpc].concat(
  Object.values(Api.groups).flatMap((group) =>
    Object.values(group.endpoints).map(({ method, path }) => ({
      method,
      path,
      pattern: patternOf(path)
    }))
  )
)

/** The routes that name spans. Façades answer unknown methods themselves. */
const namedRoutes: ReadonlyArray<KnownRoute> = knownRoutes.concat(
  Object.entries(OpenAiPaths.routes).map(([path, method]) => ({ method, path, pattern: patternOf(path) }))
)

export const allowedMethods = (path: string, audience: typeof Audience.Service): ReadonlyArray<string> => [
  ...new Set(
    knownRoutes.filter(({ path: route, pattern }) => pattern.test(path) && isServed(audience, route)).flatMap((
      { method }
    ) => method === "GET" ? [method, "HEAD"] : [method])
  )
]

/** The path of a request without its query. */
export const pathOf = (request: HttpServerRequest.HttpServerRequest): string => request.url.split("?", 1)[0] ?? "/"

/** Routes of the console, and those that its sessions may call: no other origin may read or change anything there. */
export const isOfConsole = (request: HttpServerRequest.HttpServerRequest): boolean =>
  /^\/(console|internal\/operator)(\/|$)/.test(pathOf(request))

/** The span name of a request by OpenTelemetry's convention: the method and the route. */
export const spanName = (request: HttpServerRequest.HttpServerRequest): string => {
  const path = pathOf(request)
  const method = request.method === "HEAD" ? "GET" : request.method
  const route = namedRoutes.find((known) => known.method === method && known.pattern.test(path))
  return route === undefined ? request.method : `${request.method} ${route.path}`
}

/** False for probes and scrapes, which machines send continuously. */
export const isWorthATrace = (request: HttpServerRequest.HttpServerRequest): boolean =>
  !/^\/(healthz|readyz|internal\/metrics)\/?$/.test(pathOf(request))
