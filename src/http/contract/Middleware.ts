/** Authentication: users by their JWT, the core by a token for its events, and other services by an internal token. */
import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import type { Caller } from "../../domain/Principal.ts"
import { ServiceUnavailable, Unauthorized } from "./Errors.ts"

export class CurrentCaller extends Context.Service<CurrentCaller, Caller>()(
  "async-task-service/http/contract/Middleware/CurrentCaller"
) {}

/** `Authorization: Bearer <JWT>`. */
export class Authorization extends HttpApiMiddleware.Service<Authorization, { provides: CurrentCaller }>()(
  "async-task-service/http/contract/Middleware/Authorization",
  { security: { jwt: HttpApiSecurity.bearer }, error: [Unauthorized, ServiceUnavailable] }
) {}

/** The name of the internal token of a request, of `INTERNAL_TOKEN_NAMES`. */
export class InternalTokenName extends Context.Service<InternalTokenName, string>()(
  "async-task-service/http/contract/Middleware/InternalTokenName"
) {}

/** `Authorization: Bearer` with one of `INTERNAL_TOKENS`. */
export class InternalAuthorization
  extends HttpApiMiddleware.Service<InternalAuthorization, { provides: InternalTokenName }>()(
    "async-task-service/http/contract/Middleware/InternalAuthorization",
    { security: { internalToken: HttpApiSecurity.bearer }, error: Unauthorized }
  )
{}

/** `Authorization: Bearer` with one of `CORE_EVENT_TOKENS`. */
export class CoreAuthorization extends HttpApiMiddleware.Service<CoreAuthorization>()(
  "async-task-service/http/contract/Middleware/CoreAuthorization",
  { security: { coreEventToken: HttpApiSecurity.bearer }, error: Unauthorized }
) {}

/** `Authorization: Bearer` with one of `INTERNAL_TOKENS`, or with a token that may only read. */
export class MetricsAuthorization extends HttpApiMiddleware.Service<MetricsAuthorization>()(
  "async-task-service/http/contract/Middleware/MetricsAuthorization",
  { security: { metricsToken: HttpApiSecurity.bearer }, error: Unauthorized }
) {}
