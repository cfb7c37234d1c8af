/** The built files of the console, and its audiences. The runtime reads or bundles the files. */
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

export const consoleAudiences = ["users", "operators"] as const
export type ConsoleAudience = typeof consoleAudiences[number]

/** The audiences of the console. An empty list turns it off. */
export const ConsoleAudiences = Context.Reference<ReadonlyArray<ConsoleAudience>>(
  "async-task-service/http/ConsoleAudiences",
  { defaultValue: () => [] }
)
