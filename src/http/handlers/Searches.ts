/** Searches on connections of an extension's own, where a statement ends after 2 s. */
import { Duration, Effect } from "effect"
import { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isStatementTimeout } from "../../services/store/sql/Queries.ts"
import { ServiceUnavailable } from "../contract/Errors.ts"

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
