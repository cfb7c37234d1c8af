/** Reads parts of stored turns. Large turns are scanned with pauses, and are in memory within a bound that users share fairly. */
import { Effect, Option } from "effect"
import type { Found } from "../../domain/json/JsonPaths.ts"
import type { Shape } from "../../domain/json/JsonShape.ts"
import { encode, type OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { Memory } from "../limits/Memory.ts"
import { PassedBytes } from "../limits/PassedBytes.ts"
import { type TaskOutline, TaskReads } from "../store/tasks/TaskReads.ts"

/** A task whose turn is in memory only if it is small. */
export type TurnOf = Pick<TaskOutline, "uuid" | "sub" | "turn" | "turnBytes">

export const make = Effect.gen(function*() {
  const reads = yield* TaskReads
  const passed = yield* PassedBytes
  const memory = yield* Memory

  const readLarge = Effect.fnUntraced(function*({ turnBytes, uuid }: TurnOf) {
    const turn = Option.getOrUndefined(yield* reads.turn(uuid))
    passed(turnBytes)
    return turn
  })

  /** What `take` takes of the turn, which must not keep the bytes. Undefined without a turn. */
  return Effect.fnUntraced(function*<A>(task: TurnOf, shape: Shape, take: (turn: Found, bytes: Uint8Array) => A) {
    if (task.turnBytes === 0) return undefined
    let turn: OpaqueJson | undefined = task.turn ?? undefined
    if (turn === undefined) {
      yield* memory.read.take(task.sub, task.turnBytes)
      turn = yield* readLarge(task)
    }
    if (turn === undefined) return undefined
    const bytes = encode(turn)
    return take(yield* RawJson.find(shape, bytes), bytes)
  }, Effect.scoped)
})

export type ReadTurn = Effect.Success<typeof make>
