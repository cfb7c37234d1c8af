/**
 * Sockets to Postgres that are closed when they are silent: the peer of a half-open connection never responds, and TCP gives
 * up only after a quarter of an hour. Pending statements fail as on any broken connection. Idle sockets are closed too, since
 * they may be half-open; the pool opens new ones. `DatabaseMonitor` detects sooner that all sockets are silent.
 */
import { Context, Duration, Effect, Layer } from "effect"
import { connect, Socket } from "node:net"
import * as Metrics from "../../services/telemetry/Metrics.ts"
import * as Worker from "../../services/timing/Worker.ts"
import { addressOf, type Hosts } from "./DatabaseUrl.ts"

const checkInterval = Duration.seconds(1)

/** Counts checks, not seconds: a suspended process receives nothing. More than the statement timeout of 10 s. */
const maxSilentChecks = 12

class Watch {
  readonly socket: Socket
  /** Checks since the last received bytes. */
  idle = 0
  /** Checks since the first request after them; zero without one. */
  waiting = 0
  #read = 0
  #written = 0

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
}

const closeSilent = (watches: Iterable<Watch>) => {
  for (const watch of watches) {
    watch.check()
    const silence = watch.waiting > 0 ? watch.waiting : watch.idle
    if (silence >= maxSilentChecks) watch.socket.destroy(new Error(`Postgres has been silent for ${silence} s`))
  }
}

const refusedSocket = (reason: Error) => {
  const socket = new Socket()
  process.nextTick(() => socket.destroy(reason))
  return socket
}

export class DatabaseSockets extends Context.Service<DatabaseSockets, {
  /** The driver's `stream` option: connects, or fails while sockets are refused. */
  readonly open: () => Socket
  /** A socket of the monitor, which `refuse` does not affect. */
  readonly openUnguarded: () => Socket
  /** Closes every socket and refuses new ones until `allow`. */
  readonly refuse: (reason: string) => void
  readonly allow: () => void
  /** Connects to the next host from now on. */
  readonly rotate: () => void
  /** Total bytes received; an increase shows that the database responds. */
  readonly received: () => number
}>()("async-task-service/runtime/postgres/DatabaseSockets") {
  static readonly make = Effect.fnUntraced(function*(hosts: Hosts) {
    let attempts = 0
    const watches = new Set<Watch>()
    let received = 0
    let refusal: Error | undefined
    yield* Metrics.databaseConnections.observe(() => watches.size)
    // Reads the socket's own counters, because TLS consumes its data events.
    yield* Worker.make({
      name: "the check of database connections",
      runOnce: Effect.sync(() => closeSilent(watches)),
      interval: checkInterval
    })
    const openUnguarded = () => connect(addressOf(hosts[attempts % hosts.length] ?? hosts[0]))
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
      rotate: () => {
        attempts++
      },
      received: () => {
        let sum = received
        for (const { socket } of watches) sum += socket.bytesRead
        return sum
      }
    })
  })

  static readonly layer = (hosts: Hosts) => Layer.effect(DatabaseSockets, DatabaseSockets.make(hosts))
}
