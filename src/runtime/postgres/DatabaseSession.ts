/**
 * The monitor's own session: logs in to one host after the other, and then sends heartbeats. While a login gets no answer, the next one
 * begins, so that neither a slow login nor one that nobody will answer delays the session.
 */
import { PgConnection } from "@effect/sql-pg"
import { Deferred, Duration, Effect, Exit, FiberSet, Option, Queue, Result, Schema } from "effect"
import type { SqlError } from "effect/sql"
import type { Socket } from "node:net"
import type { DatabaseSockets } from "./DatabaseSockets.ts"
import type { Host } from "./DatabaseUrl.ts"
import { type Patience, Silent, type Traffic, whileAnswering } from "./Patience.ts"

const heartbeatInterval = Duration.millis(500)
const retryInterval = Duration.millis(100)
/** Milliseconds. */
const minLoginInterval = 500
/** Logins in progress; each, and the first statement after it, ends after the URL's `connect_timeout`. */
const maxLogins = 8
const defaultTimeout = Duration.seconds(5)
/** A heartbeat without an answer for this many times the permitted silence ends its connection, although others receive something. */
const maxHeartbeat = 2

export class ReadOnly extends Schema.TaggedError<ReadOnly>()("ReadOnly", { message: Schema.String }) {}

export const refusesWrites = new ReadOnly({ message: "it is read-only" })

/** A login without a session. */
export interface FailedLogin {
  readonly host: Host
  /** `login`, or the first statement after it, as of a pooler whose server is away. */
  readonly at: "login" | "statement"
  readonly failure: SqlError.SqlError | ReadOnly | Silent
}

type Event =
  | { readonly _tag: "Failed"; readonly login: FailedLogin }
  | { readonly _tag: "Opened" }
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<void, ReadOnly | Silent> }

export interface Observer {
  /** The host of the next login. */
  readonly nextHost: () => Host
  readonly onFailed: (login: FailedLogin) => Effect.Effect<void>
  readonly isOutage: () => boolean
  /** No login gets an answer. */
  readonly onSilent: (failure: Silent) => Effect.Effect<void>
  /** The first heartbeat was answered. `end` ends the session, with a failure if it is given. */
  readonly onOpen: (host: Host, end: (failure?: ReadOnly) => void) => Effect.Effect<void>
  readonly onAnswer: (host: Host) => Effect.Effect<void>
}

/** Bytes that the monitor's sockets have received, closed ones included. */
const makeReceived = () => {
  const sockets = new Set<Socket>()
  let closed = 0
  return {
    add: (socket: Socket) => {
      sockets.add(socket)
      return socket.once("close", () => {
        sockets.delete(socket)
        closed += socket.bytesRead
      })
    },
    sum: () => {
      let sum = closed
      for (const { bytesRead } of sockets) sum += bytesRead
      return sum
    }
  }
}

/** Opens connections, whose bytes `received` counts. */
const makeOpen = (
  options: PgConnection.Config,
  { openTo }: DatabaseSockets["Service"],
  received: ReturnType<typeof makeReceived>
) =>
  Effect.fnUntraced(function*(host: Host) {
    const socket = yield* Effect.acquireRelease(
      Effect.sync(() => received.add(openTo(host))),
      (opened) => Effect.sync(() => opened.destroy())
    )
    const ended = Deferred.makeUnsafe<void, ReadOnly>()
    socket.once("close", () => Deferred.doneUnsafe(ended, Effect.void))
    // Multiplexed, because the driver opens another connection to cancel an interrupted statement otherwise.
    const connection = yield* PgConnection.make({ ...options, multiplex: true, stream: () => socket })
    return { ended, connection }
  })

/** Sends heartbeats on a connection. */
const makeHeartbeats = ({ patience }: DatabaseSockets["Service"], traffic: Traffic) => {
  const heartbeat = Effect.fnUntraced(function*(connection: PgConnection.PgConnection) {
    const begun = performance.now()
    const { rows } = yield* connection.query("SHOW transaction_read_only")
    patience.observe(performance.now() - begun)
    if (rows[0]?.["transaction_read_only"] === "on") return yield* refusesWrites
  })

  return {
    heartbeat,
    /** Ends when the connection closes, or only it gets no answer. */
    repeat: Effect.fnUntraced(
      function*(
        connection: PgConnection.PgConnection,
        ended: Deferred.Deferred<void, ReadOnly>,
        onAnswer: Effect.Effect<void>
      ) {
        for (;;) {
          const hasEnded = Option.isSome(yield* Effect.timeoutOption(Deferred.await(ended), heartbeatInterval))
          if (hasEnded) return
          const most = maxHeartbeat * patience.silence(traffic.unanswered())
          const answer = yield* whileAnswering(Effect.result(heartbeat(connection)), traffic, patience, most)
          if (Option.isNone(answer)) return
          if (Result.isFailure(answer.value)) {
            // The database may still be up: the next login shows whether it is.
            return answer.value.failure instanceof ReadOnly ? yield* answer.value.failure : undefined
          }
          yield* onAnswer
        }
      }
    )
  }
}

/**
 * In an outage the next login begins soon beside one without an answer: nobody else waits for the database. The pause grows with the
 * timeout, so that the last of `maxLogins` begins before the first one ends: 1.25 s by default.
 */
const patienceOfLogins = (
  { connectTimeout = defaultTimeout }: PgConnection.Config,
  { patience }: DatabaseSockets["Service"],
  { isOutage }: Observer
): Patience => {
  const interval = Math.max(minLoginInterval, Duration.toMillis(connectTimeout) / maxLogins)
  return { ...patience, silence: (unanswered) => isOutage() ? interval : patience.silence(unanswered) }
}

const untilEnded = Effect.fnUntraced(function*(events: Queue.Dequeue<Event>) {
  for (;;) {
    const event = yield* Queue.take(events)
    if (event._tag === "Ended") return yield* event.exit
  }
})

/**
 * Returns the effect of one session, from its first login to its end. It fails when the database is silent or refuses writes, and dies of
 * a defect of its fibers.
 */
export const make = (options: PgConnection.Config, sockets: DatabaseSockets["Service"], observer: Observer) => {
  const own = makeReceived()
  const traffic: Traffic = {
    received: () => sockets.traffic.received() + own.sum(),
    unanswered: sockets.traffic.unanswered
  }
  const { heartbeat, repeat } = makeHeartbeats(sockets, traffic)
  const patience = patienceOfLogins(options, sockets, observer)
  const open = makeOpen(options, sockets, own)

  /** One login and, if it is the first that succeeds, its session. */
  const login = (host: Host, session: { isOpen: boolean }, report: (event: Event) => void) =>
    Effect.scoped(Effect.gen(function*() {
      const failed = (at: FailedLogin["at"]) => (failure: FailedLogin["failure"]): FailedLogin => ({
        host,
        at,
        failure
      })
      const { connection, ended } = yield* Effect.mapError(open(host), failed("login"))
      yield* heartbeat(connection).pipe(
        Effect.timeoutOrElse({
          duration: options.connectTimeout ?? defaultTimeout,
          orElse: () => Effect.fail(new Silent({ message: "it does not answer" }))
        }),
        Effect.mapError(failed("statement"))
      )
      if (session.isOpen) return
      session.isOpen = true
      const end = (failure?: ReadOnly) => {
        Deferred.doneUnsafe(ended, failure === undefined ? Effect.void : Effect.fail(failure))
      }
      yield* observer.onOpen(host, end)
      report({ _tag: "Opened" })
      report({ _tag: "Ended", exit: yield* Effect.exit(repeat(connection, ended, observer.onAnswer(host))) })
    })).pipe(
      Effect.catch((failed) => Effect.sync(() => report({ _tag: "Failed", login: failed }))),
      Effect.catchDefect((defect) => Effect.sync(() => report({ _tag: "Ended", exit: Exit.die(defect) })))
    )

  return Effect.gen(function*() {
    const events = yield* Queue.unbounded<Event>()
    const report = (event: Event) => void Queue.offerUnsafe(events, event)
    const logins = yield* FiberSet.make<unknown>()
    const session = { isOpen: false }
    while (!session.isOpen) {
      const begins = (yield* FiberSet.size(logins)) < maxLogins
      if (begins) yield* FiberSet.run(logins, login(observer.nextHost(), session, report))
      const event = yield* Effect.result(whileAnswering(Queue.take(events), traffic, patience))
      // Events before a login succeeded say nothing any more.
      if (session.isOpen) break
      if (Result.isFailure(event)) {
        if (begins) yield* observer.onSilent(event.failure)
        continue
      }
      const found = Option.getOrUndefined(event.success)
      if (found?._tag === "Ended") return yield* found.exit
      if (found?._tag !== "Failed") continue
      yield* observer.onFailed(found.login)
      if (!session.isOpen) yield* Effect.sleep(retryInterval)
    }
    return yield* untilEnded(events)
  }).pipe(Effect.scoped)
}
