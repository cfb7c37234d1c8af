/** Ends streams to clients. A connection that is full asks its stream for nothing, so the stream alone cannot end the response. */
import { Duration, Effect, Stream } from "effect"

/** A client that reads gets what was sent, and the end. */
const grace = Duration.seconds(1)

/** Interrupts the fiber that sends the stream once an effect completes, even while it waits for the connection. */
export const cutWhen = <A, E>(self: Stream.Stream<A, E>, effect: Effect.Effect<unknown>): Stream.Stream<A, E> =>
  Stream.unwrap(
    Effect.withFiber((sender) =>
      Effect.as(Effect.forkScoped(Effect.andThen(effect, Effect.sync(() => sender.interruptUnsafe()))), self)
    )
  )

/** Cuts a stream off that ends when an effect completes, if the connection does not take the end. */
export const cutAfter = <A, E>(self: Stream.Stream<A, E>, effect: Effect.Effect<unknown>): Stream.Stream<A, E> =>
  cutWhen(self, Effect.andThen(effect, Effect.sleep(grace)))

/** Ends the stream once an effect completes, and cuts it off if the connection does not take the end. */
export const endWhen = <A, E>(self: Stream.Stream<A, E>, effect: Effect.Effect<unknown>): Stream.Stream<A, E> =>
  cutAfter(Stream.interruptWhen(self, effect), effect)
