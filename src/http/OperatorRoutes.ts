/** Parts that extensions with routes for operators share: the identity of an operator, and bounds of searches on own connections. */
import { Context, Duration, Effect } from "effect"
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import { StoreUnavailable } from "../domain/StoreUnavailable.ts"
import { isStatementTimeout } from "../services/store/sql/Queries.ts"
import { Forbidden, ServiceUnavailable, Unauthorized } from "./contract/Errors.ts"

export class CurrentOperator extends Context.Service<CurrentOperator, {
  readonly role: "full" | "read"
  /** Identifies the token in logs. */
  readonly token: string
  /** The name of its owner, for the audit. */
  readonly name: string
  /** `console` with a session, else `cli` or `api`. */
  readonly via: string
}>()("async-task-service/http/OperatorRoutes/CurrentOperator") {}

/**
 * `Authorization: Bearer` with a token of an operator, or the cookie of a session. An extension implements it, and others use it. A read
 * token may only read: 403.
 */
export class OperatorAuthorization
  extends HttpApiMiddleware.Service<OperatorAuthorization, { provides: CurrentOperator }>()(
    "async-task-service/http/OperatorRoutes/OperatorAuthorization",
    {
      security: { operatorToken: HttpApiSecurity.bearer },
      error: [Unauthorized, Forbidden, ServiceUnavailable]
    }
  )
{}

/** A search that waits for a connection longer than this ends: others use all. */
const patience = Duration.seconds(10)
const tooBusy = new ServiceUnavailable({
  message: "Other searches use all connections. Try again soon.",
  code: "too_busy"
})

export const isOutage = <E>(error: E): error is Extract<E, StoreUnavailable> => error instanceof StoreUnavailable

const outageOf = (error: StoreUnavailable) =>
  isStatementTimeout(error)
    ? new ServiceUnavailable({
      message: "The search took longer than 2 seconds. Narrow the filter or the range.",
      code: "search_too_long"
    })
    : new ServiceUnavailable({ message: error.message, code: "store_unavailable" })

/** Bounds a search in time, and says what an outage means. */
export const orUnavailable = <A, E, R>(search: Effect.Effect<A, E, R>) =>
  Effect.mapError(
    search,
    (error) => isOutage(error) ? outageOf(error) : error as Exclude<E, StoreUnavailable>
  ).pipe(
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(tooBusy) })
  )
