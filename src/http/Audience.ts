/**
 * Divides the routes between two listeners: a public one, and one for INTERNAL_PORT. Both serve the health routes. The processes of `WORKERS`
 * have another one each, with what they ask of one another.
 */
import { Context, Effect } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { path as rpcPath } from "./contract/rpc/Rpc.ts"
import { type ExtensionRoutes, Extensions } from "./ExtensionRoutes.ts"

/** The routes that the listener of a request serves. */
export const Audience = Context.Reference<"all" | "public" | "internal" | "worker">(
  "async-task-service/http/Audience",
  {
    defaultValue: () => "all"
  }
)

/** The starts of routes that nodes and workers ask of one another. */
const ofWorkers = ["/internal/live/", "/internal/metrics"]

/** True if the listener serves a route, given by its path in the contract. */
export const isServed = (
  extensions: ReadonlyArray<ExtensionRoutes>,
  audience: typeof Audience.Service,
  route: string
): boolean => {
  if (audience === "all" || route === "/healthz" || route === "/readyz") return true
  if (audience === "worker") return ofWorkers.some((start) => route.startsWith(start))
  if (extensions.some(({ ofBothListeners = [] }) => ofBothListeners.some((start) => route.startsWith(start)))) {
    return true
  }
  const isInternal = route === rpcPath || route.startsWith("/internal/")
  return isInternal === (audience !== "public")
}

const notFound = HttpServerResponse.empty({ status: 404 })

/** Provide it to all routes. It compares the matched route, because a path has several spellings. */
export const layer =
  HttpRouter.middleware(Effect.map(Extensions, (extensions) => (handler) =>
    Effect.withFiber((fiber) => {
      const matched = Context.getOrUndefined(fiber.context, HttpRouter.RouteContext)
      return matched === undefined || isServed(extensions, fiber.getRef(Audience), matched.route.path)
        ? handler
        : Effect.succeed(notFound)
    }))).layer
