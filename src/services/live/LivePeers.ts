/** The live texts of other nodes. A single process has none. */
import { Context, Effect, type Scope } from "effect"
import type { Reported } from "../../domain/CoreProtocol.ts"
import type { RunId, TaskId, TaskStatus } from "../../domain/Task.ts"
import type { Part } from "./LiveText.ts"

/** A report of a core on a run, for the node that owns its task. */
export interface Handed {
  readonly uuid: TaskId
  readonly runId: RunId
  readonly eventId: string
  readonly appends?: ReadonlyArray<{ readonly index: number; readonly text: string }>
  /** The text of a turn that was stored. */
  readonly turn?: Part & { readonly revision: number; readonly next: number | null }
}

/** The outcome at the owner. */
export type Taken =
  | { readonly _tag: "Taken" } & Required<Reported>
  | { readonly _tag: "Superseded"; readonly status: TaskStatus }
  | { readonly _tag: "NotFound" }

/** A change of the text that the owner has: more of the text with this version, or all that is known of it. */
export interface Change extends Part {
  readonly version: number
  /** Whether it is all that is known. */
  readonly isWhole: boolean
  readonly base: number
  /** The run that writes it, if that is known. */
  readonly runId: RunId | null
}

export interface LivePeers {
  /** Undefined when the owner cannot be reached. */
  readonly hand: (handed: Handed) => Effect.Effect<Taken | undefined>
  /**
   * Follows the text at its owner until the scope closes, while that is another node. `onChange` gets null when the owner cannot be
   * reached any more; it returns false to get the whole text again.
   */
  readonly follow: (
    uuid: TaskId,
    onChange: (change: Change | null) => boolean
  ) => Effect.Effect<void, never, Scope.Scope>
}

export const Peers = Context.Reference<LivePeers>("async-task-service/services/live/LivePeers", {
  defaultValue: () => ({ hand: () => Effect.undefined, follow: () => Effect.void })
})
