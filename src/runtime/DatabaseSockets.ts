/**
 * Sockets to Postgres that end once they are silent: the peer of a half-open connection is gone without a word, and TCP would
 * give up only after a quarter of an hour. What waited there fails as on any broken connection. An idle socket ends too, since
 * nobody can tell whether it is sound; the pool opens another one.
 */
import { Duration, Effect, Redacted, Schedule } from "effect"
import { connect, type NetConnectOpts, type Socket } from "node:net"
import * as Metrics from "../services/Metrics.ts"

const lookInterval = Duration.seconds(1)

/** Looks, not seconds: a process that was frozen has not listened. */
const maxSilentLooks = 12
/** What was heard in the look in which another fell silent may have fallen silent with it. */
const margin = 2

class Watch {
  readonly socket: Socket
  /** Looks since the last bytes came. */
  unheard = 0
  /** Looks since something was asked after that; zero when nothing was. */
  waiting = 0
  #read = 0
  #written = 0

  constructor(socket: Socket) {
    this.socket = socket
  }

  look() {
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

/** A statement has the whole patience for its own, until another's silence casts doubt on all that were not heard since. */
const endSilent = (watches: ReadonlySet<Watch>) => {
  let isPeerGone = false
  for (const watch of watches) {
    watch.look()
    isPeerGone ||= watch.waiting >= maxSilentLooks
  }
  for (const { socket, unheard, waiting } of watches) {
    const isIdle = waiting === 0 && unheard >= maxSilentLooks
    if (isIdle || (isPeerGone && unheard >= maxSilentLooks - margin)) {
      socket.destroy(new Error(`Postgres has been silent for ${unheard} s`))
    }
  }
}

/** As the driver reads a URL that it has found valid. */
const addressOf = (text: string): NetConnectOpts => {
  const { hostname, port: ownPort, searchParams } = new URL(text)
  const host = searchParams.get("host") ?? (decodeURIComponent(hostname.replace(/^\[|\]$/g, "")) || "localhost")
  const port = Number(searchParams.get("port") ?? (ownPort || 5432))
  return host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port, noDelay: true }
}

/** The driver's `stream`; reads bytes off the socket itself, since TLS takes its events. */
export const make = Effect.fnUntraced(function*(url: Redacted.Redacted) {
  const watches = new Set<Watch>()
  yield* Metrics.databaseConnections.observe(() => watches.size)
  yield* Effect.forkScoped(Effect.repeat(Effect.sync(() => endSilent(watches)), Schedule.spaced(lookInterval)))
  return () => {
    const socket = connect(addressOf(Redacted.value(url)))
    const watch = new Watch(socket)
    watches.add(watch)
    return socket.once("close", () => watches.delete(watch))
  }
})
