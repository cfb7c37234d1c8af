/** The texts of partial turns, for event streams. Streams of one task share the read and the parse of each version. */
import { Effect, Option } from "effect"
import { textOfToken } from "../../domain/json/JsonBytes.ts"
import type { Found } from "../../domain/json/JsonPaths.ts"
import { object } from "../../domain/json/JsonShape.ts"
import * as Limits from "../../domain/Limits.ts"
import type { TaskHead, TaskId } from "../../domain/Task.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import * as FairPermits from "../limits/FairPermits.ts"
import { TaskReads } from "../store/tasks/TaskReads.ts"
import * as StoredTurns from "./StoredTurns.ts"

const maxTexts = 128
/** Concurrent reads. A waiting stream of the same task finds the text that the first one has read. */
const readPermits = { total: 16, perHolder: 2 }

const half = Limits.eventTextLength / 2

/** A character outside the basic plane is not cut in half. The parts are joined because a slice refers to the whole text. */
export const cut = (text: string) =>
  text.length <= Limits.eventTextLength
    ? text
    : [text.slice(0, half), text.slice(half, Limits.eventTextLength).replace(/[\uD800-\uDBFF]$/, "")].join("")

const shape = object({ output: TurnParts.output })

const textOf = (turn: Found, bytes: Uint8Array): string => {
  const text = TurnParts.textOf(turn, bytes)
  return text === undefined ? "" : cut(textOfToken(text.bytes, 0, text.bytes.length, true))
}

export const make = Effect.gen(function*() {
  const reads = yield* TaskReads
  const readTurn = yield* StoredTurns.make
  const permits = FairPermits.make(readPermits)
  const texts = new Map<TaskId, { readonly revision: number; readonly text: string | undefined }>()
  const known = (uuid: TaskId, revision: number) => {
    const found = texts.get(uuid)
    return found !== undefined && found.revision >= revision ? found : undefined
  }

  const read = Effect.fnUntraced(function*({ sub, uuid }: TaskHead, revision: number) {
    yield* permits.take(sub, 1)
    const found = known(uuid, revision)
    if (found !== undefined) return found.text
    const task = Option.getOrUndefined(yield* reads.outline(uuid))
    if (task === undefined) return undefined
    const isShort = task.turnBytes <= Limits.eventTurnBytes
    const text = known(uuid, task.revision)?.text ??
      (isShort ? (yield* readTurn(task, shape, textOf)) ?? "" : undefined)
    texts.delete(uuid)
    for (const [oldest] of texts) {
      if (texts.size < maxTexts) break
      texts.delete(oldest)
    }
    texts.set(uuid, { revision: task.revision, text })
    return text
  }, Effect.scoped)

  /** The text of the task's turn at `revision` or later; empty or undefined when it has none, undefined when the turn is too large. */
  return (task: TaskHead, revision: number) =>
    Effect.suspend(() => {
      const found = known(task.uuid, revision)
      return found === undefined ? read(task, revision) : Effect.succeed(found.text)
    })
})
