/** Parts that extensions with routes for operators share: the identity of an operator, and bounds of searches on own connections. */
import { Context, Duration, Effect } from "effect"
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import { StoreUnavailable } from "../domain/StoreUnavailable.ts"
import { isStatementTimeout } from "../services/timing/Retry.ts"
import { Forbidden, ServiceUnavailable, Unauthorized } from "./contract/Errors.ts"

/** An action of an operator. */
export interface AuditedAction {
  /** Words with `_`, as in `endpoint_create`. */
  readonly action: string
  readonly target?: string | null
  /** The user. */
  readonly sub?: string | null
  readonly reason?: string | null
  readonly bulkId?: string | null
}

export class CurrentOperator extends Context.Service<CurrentOperator, {
  readonly role: "full" | "read"
  /** Identifies the token in logs. */
  readonly token: string
  /** The name of its owner, for the audit. */
  readonly name: string
  /** Makes a change, or a read of what tasks say, with a line of the audit. Without the line there is no change. */
  readonly audited: <A, E, R>(
    line: AuditedAction,
    change: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | StoreUnavailable, R>
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

const isOutage = <E>(error: E): error is Extract<E, StoreUnavailable> => error instanceof StoreUnavailable

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
    // The guard says which errors are an outage: all others are excluded by it.
    (error) => isOutage(error) ? outageOf(error) : error as Exclude<E, StoreUnavailable>
  ).pipe(
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(tooBusy) })
  )

/** A change with its line of the audit, for handlers of operators' routes. */
export const audited = <A, E, R>(line: AuditedAction, change: Effect.Effect<A, E, R>) =>
  Effect.flatMap(CurrentOperator, (operator) => operator.audited(line, change))

/** Logs what an operator did, in addition to the audit. */
export const logged = (message: string, details: Readonly<Record<string, unknown>> = {}) =>
  Effect.flatMap(
    CurrentOperator,
    ({ name, token }) => Effect.annotateLogs(Effect.logInfo(message), { operator: token, name, ...details })
  )
