/**
 * Sockets to Postgres that are closed when they are silent: the peer of a half-open connection never responds, and TCP gives
 * up only after a quarter of an hour. Pending statements fail as on any broken connection. Idle sockets are closed too, since
 * they may be half-open; the pool opens new ones. `DatabaseMonitor` detects sooner that all sockets are silent.
 */
import { Context, Duration, Effect, Layer } from "effect"
import { Socket } from "node:net"
import * as Metrics from "../../services/telemetry/Metrics.ts"
import * as Worker from "../../services/timing/Worker.ts"
import { type Host, type Hosts, open as openTo } from "./DatabaseUrl.ts"
import * as Patience from "./Patience.ts"

const checkInterval = Duration.seconds(1)

/**
 * Seconds, as counted by checks: a suspended process receives nothing. More than the statement timeout of 10 s. Statements that take
 * long to send get as much more as `Patience` gives them.
 */
const maxSilence = 12

class Watch {
  readonly socket: Socket
  /** Checks since the last received bytes. */
  idle = 0
  /** Checks since the first request after them; zero without one. */
  waiting = 0
  #read = 0
  #written = 0
  /** The bytes that had been written and read when a byte was last received. */
  #answered = { read: 0, written: 0 }

  constructor(socket: Socket) {
    this.socket = socket
  }

  check() {
    const { bytesRead, bytesWritten } = this.socket
    if (bytesRead !== this.#read) this.idle = this.waiting = 0
    else {
      this.idle++
      if (this.waiting > 0 || bytesWritten !== this.#written) this.waiting++
    }
    this.#read = bytesRead
    this.#written = bytesWritten
  }

  /** Bytes written since the last received one, to the precision of the interval of its calls. */
  unanswered() {
    const { bytesRead, bytesWritten } = this.socket
    if (bytesRead !== this.#answered.read) this.#answered = { read: bytesRead, written: bytesWritten }
    return bytesWritten - this.#answered.written
  }
}

const closeSilent = (watches: Iterable<Watch>, { silence }: Patience.Patience) => {
  for (const watch of watches) {
    watch.check()
    const seconds = watch.waiting > 0 ? watch.waiting : watch.idle
    const extra = Math.floor((silence(watch.unanswered()) - silence(0)) / 1000)
    if (seconds >= maxSilence + extra) {
      watch.socket.destroy(new Error(`Postgres has been silent for ${seconds} s`))
    }
  }
}

const refusedSocket = (reason: Error) => {
  const socket = new Socket()
  process.nextTick(() => socket.destroy(reason))
  return socket
}

export class DatabaseSockets extends Context.Service<DatabaseSockets, {
  readonly hosts: Hosts
  /** The host to which `open` and `openUnguarded` connect. */
  readonly host: () => Host
  /** The driver's `stream` option: connects, or fails while sockets are refused. */
  readonly open: () => Socket
  /** A socket that `refuse` does not affect. */
  readonly openUnguarded: () => Socket
  /** A socket of the monitor to any host. */
  readonly openTo: (host: Host) => Socket
  /** Closes every socket and refuses new ones until `allow`. */
  readonly refuse: (reason: string) => void
  /** Connects to `host` from now on. */
  readonly allow: (host: Host) => void
  readonly patience: Patience.Patience
  /** The traffic of the sockets that `open` returned. */
  readonly traffic: Patience.Traffic
}>()("async-task-service/runtime/postgres/DatabaseSockets") {
  static readonly make = Effect.fnUntraced(function*(hosts: Hosts) {
    let host: Host = hosts[0]
    const watches = new Set<Watch>()
    let received = 0
    let refusal: Error | undefined
    const patience = Patience.make()
    yield* Metrics.databaseConnections.observe(() => watches.size)
    // Reads the socket's own counters, because TLS consumes its data events.
    yield* Worker.make({
      name: "the check of database connections",
      runOnce: Effect.sync(() => closeSilent(watches, patience)),
      interval: checkInterval
    })
    const openUnguarded = () => openTo(host)
    const openGuarded = () => {
      const watch = new Watch(openUnguarded())
      watches.add(watch)
      return watch.socket.once("close", () => {
        watches.delete(watch)
        received += watch.socket.bytesRead
      })
    }
    return DatabaseSockets.of({
      hosts,
      host: () => host,
      openUnguarded,
      openTo,
      open: () => refusal === undefined ? openGuarded() : refusedSocket(refusal),
      refuse: (reason) => {
        refusal = new Error(reason)
        for (const { socket } of watches) socket.destroy(refusal)
      },
      allow: (found) => {
        host = found
        refusal = undefined
      },
      patience,
      traffic: {
        received: () => {
          let sum = received
          for (const { socket } of watches) sum += socket.bytesRead
          return sum
        },
        unanswered: () => {
          let sum = 0
          for (const watch of watches) sum += watch.unanswered()
          return sum
        }
      }
    })
  })

  static readonly layer = (hosts: Hosts) => Layer.effect(DatabaseSockets, DatabaseSockets.make(hosts))
}
