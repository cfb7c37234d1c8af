/** The token that the pages of a development service show to the developer at the same machine. */
import { Context, Effect } from "effect"
import type { HttpServerRequest } from "effect/http"

/** Mints a token for a user. Undefined unless the key is generated and the service listens on loopback only. */
export const DevelopmentToken = Context.Reference<((sub: string) => Effect.Effect<string>) | undefined>(
  "async-task-service/http/DevelopmentToken",
  { defaultValue: () => undefined }
)

/** True if a host name without a port is this machine's own by definition, whatever DNS says. */
export const isLoopback = (host: string): boolean => /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host)

/** Headers that proxies add: those that name the client in any way, and those of particular products. */
const ofProxy = new RegExp(
  "(^|-)(client|real|remote|originating|socket)-?(ip|addr|address)$"
    + "|^(via|(x-)?(forwarded|original|envoy|amzn|azure|appengine|arr|akamai|proxy)|cf|cdn|cloudfront|fastly|fly)(-|$)"
)

/** `Connection` is a list, whose names have no case. */
const closes = (connection = "") => connection.split(",").some((token) => token.trim().toLowerCase() === "close")

/**
 * Pages of other origins get no token: neither with CORS (they send another `Origin`) nor with a name of their own that resolves to
 * this machine (`Host`). Behind a proxy the service does not know the client. nginx before 1.29.7 adds no header by default, but
 * closes each connection. A proxy on this machine that adds nothing and keeps connections open cannot be detected: `PUBLIC_URL` or
 * a key of the operator's own excludes it.
 */
export const isOfThisMachine = ({ headers }: HttpServerRequest.HttpServerRequest): boolean =>
  isLoopback((headers["host"] ?? "").replace(/:\d+$/, ""))
  && [undefined, `http://${headers["host"]}`].includes(headers["origin"])
  && !closes(headers["connection"])
  && !Object.keys(headers).some((name) => ofProxy.test(name))

/** The token for a request, if its client may receive one. */
export const tokenFor = (
  mint: typeof DevelopmentToken.Service,
  request: HttpServerRequest.HttpServerRequest
): Effect.Effect<string | undefined> =>
  mint === undefined || !isOfThisMachine(request) ? Effect.undefined : mint("developer")
