/** Puts the request for the core together, of a stored request that refers to requests and turns of earlier tasks. */
import { Effect, Option } from "effect"
import { encode, type OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import * as StoredRequest from "../../domain/StoredRequest.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"

/** The `RunRequest`, or why there is none. */
export type Outcome =
  | { readonly _tag: "Whole"; readonly request: OpaqueJson }
  /** A turn is too large to be read here. */
  | { readonly _tag: "Large" }
  /** A task that the request refers to was deleted. */
  | { readonly _tag: "Deleted" }

const deleted: Outcome = { _tag: "Deleted" }
const large: Outcome = { _tag: "Large" }
const whole = (request: OpaqueJson): Outcome => ({ _tag: "Whole", request })

export const make = Effect.map(TaskStore, (reads) => {
  /** Fields of a request, with those of the one that it repeats; undefined if that was deleted. */
  const read = Effect.fnUntraced(function*(request: OpaqueJson) {
    const own = yield* StoredRequest.read(request)
    if (own.repeats === undefined) return own
    const base = Option.getOrUndefined(yield* reads.storedRequest(own.repeats))
    return base === undefined ? undefined : StoredRequest.replace(yield* StoredRequest.read(base.request), own)
  })

  /** Reads a large turn only if `includesLarge`; the caller then bounds how many are in memory. */
  const resolve = Effect.fnUntraced(function*(request: OpaqueJson, includesLarge: boolean) {
    if (!StoredRequest.refersToOthers(request)) return whole(request)
    const fields = yield* read(request)
    if (fields === undefined) return deleted
    if (fields.continues === undefined) return whole(StoredRequest.toRunRequest(fields, []))
    const outline = Option.getOrUndefined(yield* reads.outline(fields.continues))
    if (outline === undefined || outline.turnBytes === 0) return deleted
    if (outline.turn === null && !includesLarge) return large
    const turn = outline.turn ?? Option.getOrUndefined(yield* reads.turn(fields.continues))
    if (turn === undefined) return deleted
    const bytes = encode(turn)
    const found = yield* RawJson.find(TurnParts.conversation, bytes)
    return whole(StoredRequest.toRunRequest(fields, TurnParts.messagesOf(found, bytes)))
  })

  return { read, resolve }
})
