/** One POST to the core, or to another system of the operator that answers shortly. */
import { Context, type Effect } from "effect"
import type { CoreUnavailable } from "../../domain/DispatchRetry.ts"

export interface CoreResponse {
  readonly status: number
  /** The `Retry-After` header. */
  readonly retryAfter: string | undefined
  /** The text of a short body. */
  readonly body?: string
}

export class CoreTransport extends Context.Service<CoreTransport, {
  readonly post: (
    url: string,
    headers: Readonly<Record<string, string>>,
    /** Pieces of JSON. */
    body: ReadonlyArray<Uint8Array>
  ) => Effect.Effect<CoreResponse, CoreUnavailable>
  /** Opens a connection to the server of a URL, and closes it. Through a proxy that forwards `http:` calls it says nothing, and succeeds. */
  readonly connect: (url: string) => Effect.Effect<void, CoreUnavailable>
}>()("async-task-service/services/core/CoreTransport") {}
