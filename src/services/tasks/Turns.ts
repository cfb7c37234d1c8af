/**
 * Turns of tasks, which are stored unread: a part of one, the text of a version, and large ones on their way to clients. Large turns are
 * scanned with pauses, and are in memory within bounds that users share fairly.
 */
import { Context, Duration, Effect, Layer, Option, RcMap, type Scope, Stream } from "effect"
import { encode, type OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { type Found, object, type Shape } from "../../domain/json/Shape.ts"
import { textOfToken } from "../../domain/json/tables.ts"
import * as Limits from "../../domain/Limits.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskHead, TaskId } from "../../domain/Task.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import * as FairPermits from "../limits/FairPermits.ts"
import { Memory, PassedBytes } from "../limits/Memory.ts"
import { type TaskOutline, TaskStore } from "../store/tasks/TaskStore.ts"
import { cutWhen } from "../timing/StreamEnds.ts"

/** A client that holds memory for which others wait must take this many bytes in each interval. */
const contendedBytes = 1024 * 1024
const contendedInterval = Duration.seconds(2)

/** Bytes that are sent in one turn of the event loop. */
const sliceBytes = 128 * 1024

const maxTexts = 128
/** Concurrent reads of texts. A waiting stream of the same task finds the text that the first one has read. */
const textPermits = { total: 16, perHolder: 2 }

/** A task whose turn is in memory only if it is small. */
export type TurnOf = Pick<TaskOutline, "uuid" | "sub" | "turn" | "turnBytes">

/** A version of a task with a large turn. */
export type Version = Pick<TaskOutline, "uuid" | "sub" | "revision" | "turnBytes">

/** A response that is being sent. */
export interface Client {
  held: number
  taken: number
}

export class Turns extends Context.Service<Turns, {
  /** The result of `take` for the turn, which must not keep the bytes. Undefined without a turn. */
  readonly read: <A>(
    task: TurnOf,
    shape: Shape,
    take: (turn: Found, bytes: Uint8Array) => A
  ) => Effect.Effect<A | undefined, StoreUnavailable>
  /**
   * The text of the task's turn at `revision` or later; empty or undefined when it has none, undefined when the turn is too large.
   * Streams of one task share the read of each version.
   */
  readonly textOf: (task: TaskHead, revision: number) => Effect.Effect<string | undefined, StoreUnavailable>
  /**
   * Returns a function that returns what `read` reads of a version, until the scope closes. Responses that need the same version at
   * the same time share one read and its memory. `read` must not need memory of `share` itself.
   */
  readonly share: <A, E>(
    read: (version: Version) => Effect.Effect<A, E>
  ) => Effect.Effect<(client: Client, version: Version) => Effect.Effect<A, E, Scope.Scope>, never, Scope.Scope>
  /** Completes when a client takes too little while it holds memory for which others wait. */
  readonly awaitSlow: (client: Client) => Effect.Effect<void>
  /** A stream to a client, which is cut off if it is slow while it holds memory for which others wait. */
  readonly send: <E>(client: Client, bytes: Stream.Stream<Uint8Array, E>) => Stream.Stream<Uint8Array, E>
}>()("async-task-service/services/tasks/Turns") {
  static readonly layer = Layer.effect(Turns, Effect.suspend(() => make))
}

const makeRead = Effect.gen(function*() {
  const store = yield* TaskStore
  const passed = yield* PassedBytes
  const { read: memory } = yield* Memory

  return Effect.fnUntraced(function*<A>(task: TurnOf, shape: Shape, take: (turn: Found, bytes: Uint8Array) => A) {
    if (task.turnBytes === 0) return undefined
    let turn: OpaqueJson | undefined = task.turn ?? undefined
    if (turn === undefined) {
      yield* memory.take(task.sub, task.turnBytes)
      turn = Option.getOrUndefined(yield* store.turn(task.uuid))
      passed(task.turnBytes)
    }
    if (turn === undefined) return undefined
    const bytes = encode(turn)
    return take(yield* RawJson.find(shape, bytes), bytes)
  }, Effect.scoped)
})

const half = Limits.eventTextLength / 2

/** A character outside the basic plane is not cut in half. The parts are joined because a slice refers to the whole text. */
export const cut = (text: string) =>
  text.length <= Limits.eventTextLength
    ? text
    : [text.slice(0, half), text.slice(half, Limits.eventTextLength).replace(/[\uD800-\uDBFF]$/, "")].join("")

const textShape = object({ output: TurnParts.output })

const shortTextOf = (turn: Found, bytes: Uint8Array): string => {
  const text = TurnParts.textOf(turn, bytes)
  return text === undefined ? "" : cut(textOfToken(text.bytes, 0, text.bytes.length, true))
}

const makeTextOf = Effect.fnUntraced(function*(readTurn: Turns["Service"]["read"]) {
  const store = yield* TaskStore
  const permits = FairPermits.make(textPermits)
  const texts = new Map<TaskId, { readonly revision: number; readonly text: string | undefined }>()
  const known = (uuid: TaskId, revision: number) => {
    const found = texts.get(uuid)
    return found !== undefined && found.revision >= revision ? found : undefined
  }

  const read = Effect.fnUntraced(function*({ sub, uuid }: TaskHead, revision: number) {
    yield* permits.take(sub, 1)
    const found = known(uuid, revision)
    if (found !== undefined) return found.text
    const task = Option.getOrUndefined(yield* store.outline(uuid))
    if (task === undefined) return undefined
    const isShort = task.turnBytes <= Limits.eventTurnBytes
    const text = known(uuid, task.revision)?.text ??
      (isShort ? (yield* readTurn(task, textShape, shortTextOf)) ?? "" : undefined)
    texts.delete(uuid)
    for (const [oldest] of texts) {
      if (texts.size < maxTexts) break
      texts.delete(oldest)
    }
    texts.set(uuid, { revision: task.revision, text })
    return text
  }, Effect.scoped)

  return (task: TaskHead, revision: number) =>
    Effect.suspend(() => {
      const found = known(task.uuid, revision)
      return found === undefined ? read(task, revision) : Effect.succeed(found.text)
    })
})

const makeSent = ({ sent: memory }: Memory["Service"]) => {
  const share: Turns["Service"]["share"] = (read) =>
    Effect.map(
      RcMap.make({
        lookup: (version: Version) => Effect.andThen(memory.take(version.sub, version.turnBytes), read(version))
      }),
      (versions) => (client: Client, { revision, sub, turnBytes, uuid }: Version) =>
        Effect.andThen(
          Effect.acquireRelease(Effect.sync(() => client.held++), () => Effect.sync(() => client.held--)),
          RcMap.get(versions, { uuid, sub, revision, turnBytes })
        )
    )

  const awaitSlow = Effect.fnUntraced(function*(client: Client) {
    for (let isSlow = false; !isSlow;) {
      const before = client.taken
      yield* Effect.sleep(contendedInterval)
      isSlow = client.held > 0 && memory.isContended() && client.taken - before < contendedBytes
    }
  })

  const send: Turns["Service"]["send"] = (client, bytes) =>
    bytes.pipe(
      Stream.tap(({ length }) => Effect.sync(() => client.taken += length)),
      (sent) => cutWhen(sent, awaitSlow(client))
    )

  return { share, send, awaitSlow }
}

const make = Effect.gen(function*() {
  const read = yield* makeRead
  return Turns.of({ read, textOf: yield* makeTextOf(read), ...makeSent(yield* Memory) })
})

export const makeClient = (): Client => ({ held: 0, taken: 0 })

/** The pieces without copies, each in parts that are sent in one turn of the event loop. */
export const slicesOf = (pieces: ReadonlyArray<Uint8Array>): Stream.Stream<Uint8Array> =>
  Stream.fromIterable(
    function*() {
      for (const piece of pieces) {
        for (let from = 0; from < piece.length; from += sliceBytes) yield piece.subarray(from, from + sliceBytes)
      }
    }(),
    { chunkSize: 1 }
  )
