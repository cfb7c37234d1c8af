/**
 * Sockets to Postgres that end once they are silent: the peer of a half-open connection is gone without a word, and TCP would
 * give up only after a quarter of an hour. What waited there fails as on any broken connection. An idle socket ends too, since
 * nobody can tell whether it is sound; the pool opens another one. `DatabaseMonitor` finds sooner that all are silent.
 */
import { Context, Duration, Effect, Layer, Redacted, Schedule } from "effect"
import { connect, type NetConnectOpts, Socket } from "node:net"
import * as Metrics from "../../services/telemetry/Metrics.ts"

const checkInterval = Duration.seconds(1)

/** Checks, not seconds: a process that was frozen has not listened. More than a statement's own timeout of 10 s. */
const maxSilentChecks = 12

class Watch {
  readonly socket: Socket
  /** Checks since the last bytes came. */
  unheard = 0
  /** Checks since something was asked after that; zero when nothing was. */
  waiting = 0
  #read = 0
  #written = 0

  constructor(socket: Socket) {
    this.socket = socket
  }

  check() {
    const { bytesRead, bytesWritten } = this.socket
    if (bytesRead !== this.#read) this.unheard = this.waiting = 0
    else {
      this.unheard++
      if (this.waiting > 0 || bytesWritten !== this.#written) this.waiting++
    }
    this.#read = bytesRead
    this.#written = bytesWritten
  }
}

const endSilent = (watches: Iterable<Watch>) => {
  for (const watch of watches) {
    watch.check()
    const silence = watch.waiting > 0 ? watch.waiting : watch.unheard
    if (silence >= maxSilentChecks) watch.socket.destroy(new Error(`Postgres has been silent for ${silence} s`))
  }
}

/** As the driver reads a URL that it has found valid. */
const addressOf = (text: string): NetConnectOpts => {
  const { hostname, port: ownPort, searchParams } = new URL(text)
  const host = searchParams.get("host") ?? (decodeURIComponent(hostname.replace(/^\[|\]$/g, "")) || "localhost")
  const port = Number(searchParams.get("port") ?? (ownPort || 5432))
  return host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port, noDelay: true }
}

const refusedSocket = (reason: Error) => {
  const socket = new Socket()
  process.nextTick(() => socket.destroy(reason))
  return socket
}

export class DatabaseSockets extends Context.Service<DatabaseSockets, {
  /** The driver's `stream`: connects, or fails while sockets are refused. */
  readonly open: () => Socket
  /** The same for the monitor, which tries while all others are refused; `endAll` spares it. */
  readonly openUnguarded: () => Socket
  /** Ends every socket, and refuses new ones until `allow`. */
  readonly refuse: (reason: string) => void
  readonly allow: () => void
  /** Bytes that came in so far, to compare with those of a moment before. */
  readonly received: () => number
}>()("async-task-service/runtime/postgres/DatabaseSockets") {
  static readonly make = Effect.fnUntraced(function*(url: Redacted.Redacted) {
    const watches = new Set<Watch>()
    let received = 0
    let refusal: Error | undefined
    yield* Metrics.databaseConnections.observe(() => watches.size)
    // The bytes are counted by the socket itself, since TLS takes its events.
    yield* Effect.forkScoped(Effect.repeat(Effect.sync(() => endSilent(watches)), Schedule.spaced(checkInterval)))
    const openUnguarded = () => connect(addressOf(Redacted.value(url)))
    return DatabaseSockets.of({
      openUnguarded,
      open: () => {
        if (refusal !== undefined) return refusedSocket(refusal)
        const socket = openUnguarded()
        const watch = new Watch(socket)
        watches.add(watch)
        return socket.once("close", () => {
          watches.delete(watch)
          received += socket.bytesRead
        })
      },
      refuse: (reason) => {
        refusal = new Error(reason)
        for (const { socket } of watches) socket.destroy(refusal)
      },
      allow: () => {
        refusal = undefined
      },
      received: () => {
        let sum = received
        for (const { socket } of watches) sum += socket.bytesRead
        return sum
      }
    })
  })

  static readonly layer = (url: Redacted.Redacted) => Layer.effect(DatabaseSockets, DatabaseSockets.make(url))
}
