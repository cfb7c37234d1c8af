/**
 * Connections to a host that may have several addresses. Node closes the attempt of an address after half a second, so that it never
 * reaches a distant one. Here an attempt continues while the next ones begin (RFC 8305), and only the caller's clock ends it.
 */
import { Array as Arr, Cause, Deferred, Duration, Effect, Exit, Schema } from "effect"
import { promises as dns } from "node:dns"
import { connect, isIP, type Socket, type TcpNetConnectOpts } from "node:net"

/** Time for which an address is tried alone. An address that fails sooner is followed immediately. */
const attemptDelay = Duration.millis(250)

/** Addresses of one host that are tried. Whoever chooses the host also chooses how many it has. */
const maxAddresses = 16

/** Milliseconds without bytes after which TCP probes the peer. */
const probeDelay = 30_000

const socketOptions = { noDelay: true, keepAlive: true, keepAliveInitialDelay: probeDelay }

/** No address of the host could be reached. */
export class NotConnected extends Schema.TaggedError<NotConnected>()("NotConnected", { cause: Schema.Defect() }) {}

export const toNotConnected = (cause: unknown) => new NotConnected({ cause })

/** The addresses of a name, as the system resolves it. */
export const addressesOf = (host: string): Effect.Effect<ReadonlyArray<string>, NotConnected> =>
  isIP(host) === 0
    ? Effect.map(
      Effect.tryPromise({ try: () => dns.lookup(host, { all: true }), catch: toNotConnected }),
      Arr.map(({ address }) => address)
    )
    : Effect.succeed([host])

/** Alternates between the families, beginning with that of the first address. */
const ordered = (addresses: ReadonlyArray<string>) => {
  const [same = [], others = []] = [true, false].map((isSame) =>
    Arr.dedupe(addresses).filter((address) => (isIP(address) === isIP(addresses[0] ?? "")) === isSame)
  )
  const rest = same.length > others.length ? same.slice(others.length) : others.slice(same.length)
  return [...Arr.zip(same, others).flat(), ...rest].slice(0, maxAddresses)
}

/** Connects to one address. Each socket is added to `opened` when it exists, and is closed unless it is the result. */
export type Attempt = (address: string, opened: Set<Socket>) => Effect.Effect<Socket, NotConnected>

export const tcp = (port: number): Attempt => (address, opened) =>
  Effect.callback((resume) => {
    const socket = connect({ ...socketOptions, host: address, port })
    opened.add(socket)
    socket.once("connect", () => resume(Effect.succeed(socket)))
    socket.once("error", (cause) => resume(Effect.fail(toNotConnected(cause))))
  })

/** Several failures as the one error that `rootCauseMessage` reads. */
const together = (cause: Cause.Cause<NotConnected>) => {
  const causes = cause.reasons.filter(Cause.isFailReason).map(({ error }) => error.cause)
  return causes.length === 1 ? toNotConnected(causes[0]) : toNotConnected(new AggregateError(causes))
}

/** The socket of the first attempt that succeeds; the others are closed. */
export const dial = (addresses: ReadonlyArray<string>, attempt: Attempt): Effect.Effect<Socket, NotConnected> =>
  Effect.suspend(() => {
    const opened = new Set<Socket>()
    const tryFrom = ([address, ...others]: ReadonlyArray<string>): Effect.Effect<Socket, NotConnected> => {
      if (address === undefined) return Effect.fail(toNotConnected(new Error("the name has no address")))
      if (others.length === 0) return attempt(address, opened)
      const failed = Deferred.makeUnsafe<void>()
      return Effect.race(
        Effect.tapError(attempt(address, opened), () => Deferred.succeed(failed, undefined)),
        Effect.andThen(Effect.timeoutOption(Deferred.await(failed), attemptDelay), tryFrom(others))
      )
    }
    return tryFrom(ordered(addresses)).pipe(
      Effect.catchCause((cause) => Effect.fail(together(cause))),
      Effect.onExit((exit) =>
        Effect.sync(() => {
          for (const socket of opened) if (Exit.isFailure(exit) || socket !== exit.value) socket.destroy()
        })
      )
    )
  })

/**
 * A socket that connects, for a driver that needs one immediately. Of several addresses it takes the one that answers a connection
 * before, because a socket cannot have several attempts.
 */
export const openSocket = ({ host, port }: Pick<TcpNetConnectOpts, "port"> & { readonly host: string }): Socket => {
  const answering = Effect.flatMap(addressesOf(host), (addresses) => {
    if (addresses.length === 1) return Effect.succeed(addresses[0] ?? "")
    return Effect.map(dial(addresses, tcp(port)), (probe) => {
      const address = probe.remoteAddress ?? ""
      probe.destroy()
      return address
    })
  })
  let stop = () => {}
  const socket = connect({
    ...socketOptions,
    host,
    port,
    autoSelectFamily: false,
    lookup: (_, __, callback) => {
      stop = Effect.runCallback(answering, {
        onExit: Exit.match({
          onSuccess: (address) => callback(null, address, isIP(address)),
          onFailure: (cause) => callback(rootErrorOf(Cause.squash(cause)), "", 0)
        })
      })
    }
  })
  return socket.once("close", () => stop())
}

/** The error of the system, whose `code` callers read. */
const rootErrorOf = (error: unknown): Error => {
  if (error instanceof NotConnected) return rootErrorOf(error.cause)
  if (error instanceof AggregateError && error.errors[0] instanceof Error) {
    return Object.assign(error, { code: Object.getOwnPropertyDescriptor(error.errors[0], "code")?.value })
  }
  return error instanceof Error ? error : new Error(String(error))
}
