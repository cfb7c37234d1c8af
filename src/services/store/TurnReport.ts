/**
 * A value that an extension reads from the turn of an event. It is read once, where the event is decoded, and the core stores it with it
 * (`task_events.report`) without knowing what it is.
 */
import { Context } from "effect"
import { encode, type OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import { scan } from "../../domain/json/Scanner.ts"
import type { Found, Shape } from "../../domain/json/Shape.ts"

export interface TurnReport {
  /** The parts of a turn that `read` needs. */
  readonly shape: Shape
  /** Small JSON that Postgres can store; null for none. */
  readonly read: (turn: Found | undefined, bytes: Uint8Array) => string | null
}

/** Undefined without an extension that reads turns. */
export const TurnReport = Context.Reference<TurnReport | undefined>("async-task-service/services/store/TurnReport", {
  defaultValue: () => undefined
})

/** Reads a whole turn. */
export const readTurn = ({ read, shape }: TurnReport, turn: OpaqueJson): string | null => {
  const bytes = encode(turn)
  return read(scan(bytes, shape).root, bytes)
}
