/**
 * What extensions show to operators. The extension of operators serves it below `/internal/operator`: it authorizes the request, and bounds
 * it in time and connections.
 */
import { Context, type Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { StoreUnavailable } from "../domain/StoreUnavailable.ts"
import type { ValidationFailed } from "./contract/Errors.ts"
import type { Query } from "./handlers/Query.ts"

export interface OperatorRead {
  readonly path: `/internal/operator/${string}`
  /** The bytes of the JSON that answers a query. */
  readonly read: (query: Query) => Effect.Effect<Uint8Array, ValidationFailed | StoreUnavailable>
}

/** They search on connections of operators. */
export const OperatorReads = Context.Reference<
  ReadonlyArray<Effect.Effect<OperatorRead, never, SqlClient.SqlClient>>
>("async-task-service/http/OperatorReads", { defaultValue: () => [] })
