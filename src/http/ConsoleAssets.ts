/** The built files of the console, and whom it serves. Reading or bundling them is the runtime's job. */
import { Context, type Effect, type Option, Schema } from "effect"

export interface Asset {
  readonly contentType: string
  readonly bytes: Uint8Array
  readonly gzip: Uint8Array
}

/** There are no built files, and no bundler to build them. */
export class ConsoleNotBuilt extends Schema.TaggedError<ConsoleNotBuilt>()("ConsoleNotBuilt", {}) {}

export class ConsoleAssets extends Context.Service<ConsoleAssets, {
  /** Finds a file by its name: `index.html`, or a name that contains a hash of the content. */
  readonly get: (name: string) => Effect.Effect<Option.Option<Asset>, ConsoleNotBuilt>
}>()("async-task-service/http/ConsoleAssets") {}

export type ConsoleAudience = "users"

/** Who may use the console. Without anybody there is none. */
export const ConsoleAudiences = Context.Reference<ReadonlyArray<ConsoleAudience>>(
  "async-task-service/http/ConsoleAudiences",
  { defaultValue: () => [] }
)
