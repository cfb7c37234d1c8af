/** Requests for the core that continue the conversation of an earlier task, whose messages are not copied. */
import { Effect } from "effect"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import type { Found } from "../../domain/json/Shape.ts"
import { type Writable, write } from "../../domain/json/Writer.ts"
import * as Limits from "../../domain/Limits.ts"
import { TaskNotFound } from "../../domain/TaskErrors.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import * as RunRequests from "../../services/core/RunRequests.ts"
import type { TaskOutline } from "../../services/store/tasks/TaskStore.ts"
import { Turns } from "../../services/tasks/Turns.ts"

const sizeOfMessages = (turn: Found, bytes: Uint8Array): number =>
  OpaqueJson.sizeOf(OpaqueJson.toBytes(write(TurnParts.messagesOf(turn, bytes))))

/** Returns a function that makes the request of a new task; undefined when the conversation is too long. */
export const make = Effect.gen(function*() {
  const { resolve } = yield* RunRequests.make
  const turns = yield* Turns
  return Effect.fnUntraced(
    function*(earlier: TaskOutline | undefined, fields: { readonly [field: string]: Writable | undefined }) {
      const request = OpaqueJson.fromValue({ ...(earlier === undefined ? {} : { continues: earlier.uuid }), ...fields })
      const isSurelyShort = request.length + (earlier?.turnBytes ?? 0) <= Limits.jsonBodyBytes
      if (!isSurelyShort) {
        const size = earlier && (yield* turns.read(earlier, TurnParts.conversation, sizeOfMessages))
        if (request.length + (size ?? 0) > Limits.jsonBodyBytes) return undefined
      }
      const resolved = yield* resolve(request, false)
      if (resolved._tag === "Deleted") return yield* new TaskNotFound({})
      return { request, whole: resolved._tag === "Whole" ? resolved.request : undefined }
    }
  )
})
