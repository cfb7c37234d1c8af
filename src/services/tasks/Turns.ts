/**
 * Large turns on their way to clients. Responses that need the same version of a task at the same time share one read and its
 * memory, for which users wait fairly.
 */
import { Context, Duration, Effect, Layer, RcMap, type Scope, Stream } from "effect"
import * as Limits from "../../domain/Limits.ts"
import * as FairPermits from "../limits/FairPermits.ts"
import type { TaskOutline } from "../store/tasks/TaskReads.ts"

/** Bytes. */
const memoryPermits = { total: 3 * Limits.coreEventBytes, perHolder: Limits.coreEventBytes }

/** A client that holds memory for which others wait must take this many bytes in each interval. */
const contendedBytes = 1024 * 1024
const contendedInterval = Duration.seconds(2)

/** Bytes that are sent in one turn of the event loop. */
const sliceBytes = 128 * 1024

/** A version of a task with a large turn. */
export type Version = Pick<TaskOutline, "uuid" | "sub" | "revision" | "turnBytes">

/** A response that is being sent. */
export interface Client {
  held: number
  taken: number
}

export class SentTurns extends Context.Service<SentTurns, {
  /** Returns a function that returns what `read` reads of a version, until the scope closes. `read` must not need memory of `share` itself. */
  readonly share: <A, E>(
    read: (version: Version) => Effect.Effect<A, E>
  ) => Effect.Effect<(client: Client, version: Version) => Effect.Effect<A, E, Scope.Scope>, never, Scope.Scope>
  /** A stream to a client, which is interrupted if the client is slow while it holds memory for which others wait. */
  readonly send: <E>(client: Client, bytes: Stream.Stream<Uint8Array, E>) => Stream.Stream<Uint8Array, E>
}>()("async-task-service/services/tasks/SentTurns") {
  static readonly layer = Layer.sync(SentTurns, () => {
    const memory = FairPermits.make(memoryPermits)

    const share = <A, E>(read: (version: Version) => Effect.Effect<A, E>) =>
      Effect.map(
        RcMap.make({
          lookup: (version: Version) =>
            Effect.andThen(
              memory.take(version.sub, Math.min(version.turnBytes, memoryPermits.perHolder)),
              read(version)
            )
        }),
        (versions) => (client: Client, { revision, sub, turnBytes, uuid }: Version) =>
          Effect.andThen(
            Effect.acquireRelease(Effect.sync(() => client.held++), () => Effect.sync(() => client.held--)),
            RcMap.get(versions, { uuid, sub, revision, turnBytes })
          )
      )

    /** Ends when the client is too slow. */
    const slowness = Effect.fnUntraced(function*(client: Client) {
      for (let isSlow = false; !isSlow;) {
        const before = client.taken
        yield* Effect.sleep(contendedInterval)
        isSlow = client.held > 0 && memory.isContended() && client.taken - before < contendedBytes
      }
      return yield* Effect.interrupt
    })

    return SentTurns.of({
      share,
      send: (client, bytes) =>
        bytes.pipe(
          Stream.tap(({ length }) => Effect.sync(() => client.taken += length)),
          Stream.interruptWhen(slowness(client))
        )
    })
  })
}

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
