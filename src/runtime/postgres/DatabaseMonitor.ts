/**
 * Detects within two seconds, or three round trips of a distant database, that the database is unavailable, and soon after the
 * first login that succeeds that it is back. It keeps a session of its own with heartbeats: `DatabaseSession`.
 * The database is unavailable when
 * - no connection can be opened, unless the server sends an error that may pass, as when connections are short,
 * - the first statement of new connections fails, twice in a row,
 * - it refuses writes, or
 * - a heartbeat, or a login after the first one, gets no response while no socket receives anything, for as long as `Patience` says; in an
 *   outage a login sooner. While other sockets receive something, only the monitor's own connection is replaced.
 *
 * Then only the monitor connects, so that a starting database is not overloaded, until a heartbeat gets a response. With several
 * hosts it also leaves one that refuses logins, for one that accepts writes.
 */
import type { PgConnection } from "@effect/sql-pg"
import { Effect, Latch, Predicate, Schema } from "effect"
import { SqlError } from "effect/sql"
import * as Metrics from "../../services/telemetry/Metrics.ts"
import * as OutageLog from "../../services/telemetry/OutageLog.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"
import * as Worker from "../../services/timing/Worker.ts"
import type { AdmissionGate } from "./AdmissionGate.ts"
import * as DatabaseSession from "./DatabaseSession.ts"
import { type FailedLogin, ReadOnly, refusesWrites } from "./DatabaseSession.ts"
import type { DatabaseSockets } from "./DatabaseSockets.ts"
import type { Host } from "./DatabaseUrl.ts"

const retryInterval = "100 millis"

/** Logins in a row that a host may refuse before the next one is tried. */
const maxRefused = 3

/** The SQLSTATE of a write that a read-only database refused. */
const readOnly = "25006"

/** Shortages by the SQLSTATE of a failed statement. A heartbeat does not detect them. */
const shortages: ReadonlyMap<unknown, string> = new Map([
  ["53100", "has a full disk"],
  ["53200", "is out of memory"],
  ["53300", "has no free connection"]
])

/** Milliseconds for which a shortage counts, unless the statement that found it, or the probe, succeeds before. */
const shortageFor = 15_000
/** The same when the pool opened no connection, which statements on the other ones say nothing about. */
const refusalFor = 1500

/** Reasons for which the server refuses every new connection, by SQLSTATE. */
const refusals: ReadonlyMap<unknown, string> = new Map([
  ["28000", "refuses the login"],
  ["28P01", "refuses the login"],
  ["3D000", "does not exist"],
  ["42501", "refuses the login"],
  ["55000", "accepts no connections"]
])

/** The first statement of new connections failed, twice in a row: a pooler opens connections while its server is away. */
class Unanswered extends Schema.TaggedError<Unanswered>()("Unanswered", { message: Schema.String }) {}

const codeOf = (failure: unknown) =>
  SqlError.isSqlError(failure) && Predicate.hasProperty(failure.reason.cause, "code")
    ? failure.reason.cause.code
    : undefined

/** True if the server sent the error. Every SQLSTATE has a digit; Node's codes, such as EPERM, have none. */
const isSent = (failure: unknown) => /^(?=.*\d)[0-9A-Z]{5}$/.test(String(codeOf(failure)))

/** True if the server sent the error and may work for others. 57P01 to 57P03 report that it starts or stops. */
const isUp = (failure: unknown) =>
  isSent(failure) && !String(codeOf(failure)).startsWith("57P0") && !refusals.has(codeOf(failure))

const isShortage = (failure: unknown) => String(codeOf(failure)).startsWith("53")

/** The messages of other failures may name the database's address or the role. */
const reasonOf = (failure: unknown) =>
  failure instanceof ReadOnly
    ? "is read-only"
    : shortages.get(codeOf(failure)) ?? refusals.get(codeOf(failure)) ?? "does not answer"

/** Logs why a statement failed that the database could not run although it answers heartbeats. */
const makeFailureLog = () => {
  const outageLog = OutageLog.make()
  let noted: SqlError.SqlError | undefined
  const discard = () => {
    noted = undefined
  }
  return {
    note: (failure: SqlError.SqlError) => {
      noted = failure
    },
    discard,
    log: Effect.suspend(() => {
      if (noted === undefined) return Effect.void
      const reason = rootCauseMessage(noted)
      discard()
      return outageLog.log(`The database answers, but statements fail: ${reason}. Their requests get 503`)
    })
  }
}

/** Which host the next login goes to: the chosen one, and others once it fails or has refused `maxRefused` logins in a row. */
const makeHosts = ({ host, hosts }: DatabaseSockets["Service"]) => {
  let skipped = 0
  let refused = 0
  return {
    isChosen: (other: Host) => other === host(),
    next: () => hosts[(hosts.indexOf(host()) + skipped) % hosts.length] ?? host(),
    skip: () => {
      skipped++
    },
    /** Returns whether the next host is to be tried. */
    countRefusal: () => {
      refused++
      if (hosts.length === 1 || refused % maxRefused > 0) return false
      skipped++
      return true
    },
    reset: () => {
      skipped = refused = 0
    },
    forgive: () => {
      refused = 0
    }
  }
}

type Hosts = ReturnType<typeof makeHosts>

/** The outage, or the shortage, that requests meet. */
const makeState = (sockets: DatabaseSockets["Service"], gate: AdmissionGate, probe: string | undefined) => {
  let outage: { readonly since: number; readonly problem: string } | undefined
  let shortage: { readonly problem: string; readonly statement: string; readonly until: number } | undefined
  /** Why a statement got no connection, until one succeeds. */
  let refusal: string | undefined
  const outageLog = OutageLog.make("Error")
  const present = () => shortage !== undefined && performance.now() < shortage.until ? shortage : undefined

  return {
    /** True if a statement failed for lack of something, so that another one shows whether the lack has ended. */
    isProbed: () => (present()?.statement ?? "") !== "",
    isUnavailable: () => outage !== undefined,
    /** Why the database cannot do its work; null while it can. */
    problem: () => outage?.problem ?? present()?.problem ?? refusal ?? null,
    close: (failure: unknown) =>
      Effect.suspend(() => {
        const now = performance.now()
        const reason = rootCauseMessage(failure)
        const isFirst = outage === undefined
        const since = outage?.since ?? now
        outage = { since, problem: reasonOf(failure) }
        gate.close()
        sockets.refuse(`The database is unavailable: ${reason}`)
        return outageLog.log(
          isFirst
            ? `The database is unavailable: ${reason}. Requests get 503 until it is back`
            : `The database is still unavailable after ${Math.round((now - since) / 1000)} s: ${reason}`
        )
      }),
    /** Uses `host` from now on. */
    open: (host: Host) =>
      Effect.suspend(() => {
        const isMoved = host !== sockets.host()
        if (outage === undefined && !isMoved) return Effect.void
        // Connections to the other host must not remain beside those to this one.
        if (isMoved) sockets.refuse("The database is used at another host")
        const ended = outage
        outage = refusal = undefined
        outageLog.end()
        sockets.allow(host)
        gate.open()
        return ended === undefined
          ? Effect.logInfo(`The database is used at the host ${host.host}:${host.port} now`)
          : Effect.logInfo(`The database is back after ${((performance.now() - ended.since) / 1000).toFixed(1)} s`)
      }),
    lack: (problem: string, statement: string) => {
      shortage = { problem, statement, until: performance.now() + (statement === "" ? refusalFor : shortageFor) }
    },
    refuse: (problem: string) => {
      refusal = problem
    },
    succeed: (statement: string) => {
      refusal = undefined
      if (shortage?.statement === statement || statement === probe) shortage = undefined
    }
  }
}

type State = ReturnType<typeof makeState>

/** Decides what a failed login means. */
const makeOnFailed = (hosts: Hosts, state: State, log: Effect.Effect<void>) => {
  /** Sessions in a row whose first statement failed. */
  let unanswered = 0
  return {
    forgive: () => {
      unanswered = 0
    },
    onFailed: ({ at, failure, host }: FailedLogin): Effect.Effect<void> => {
      if (at === "statement" && !(failure instanceof ReadOnly)) {
        if (isShortage(failure) || ++unanswered < 2) return Effect.void
        hosts.skip()
        return state.close(new Unanswered({ message: rootCauseMessage(failure) }))
      }
      if (isUp(failure)) {
        hosts.countRefusal()
        // A login that fails never ends an outage.
        return state.isUnavailable() ? state.close(failure) : log
      }
      hosts.skip()
      // Another host may be a standby, or away, while the chosen one works.
      return state.isUnavailable() || hosts.isChosen(host) ? state.close(failure) : Effect.void
    }
  }
}

/**
 * Starts the monitor. `options` are those of the pool's connections; `probe` is a statement that needs what writes need. Returns its view
 * of the database, and what reports the ends of statements.
 */
export const monitor = Effect.fnUntraced(function*(
  options: PgConnection.Config,
  sockets: DatabaseSockets["Service"],
  gate: AdmissionGate,
  probe?: string
) {
  const hosts = makeHosts(sockets)
  const state = makeState(sockets, gate, probe)
  const failing = makeFailureLog()
  const needsProbe = Latch.makeUnsafe()
  let endSession: ((failure?: ReadOnly) => void) | undefined
  const { forgive, onFailed } = makeOnFailed(hosts, state, failing.log)
  yield* Metrics.databaseAvailable.observe(() => state.problem() === null ? 1 : 0)

  const session = DatabaseSession.make(options, sockets, {
    nextHost: hosts.next,
    isOutage: state.isUnavailable,
    onFailed,
    onSilent: (failure) => {
      hosts.skip()
      // The first login may be slow: only its failure is an outage.
      return endSession === undefined ? Effect.void : state.close(failure)
    },
    onOpen: (host, end) =>
      Effect.suspend(() => {
        endSession = end
        forgive()
        hosts.reset()
        failing.discard()
        return state.open(host)
      }),
    // Each answer ends an outage, whatever began it.
    onAnswer: (host) => Effect.andThen(state.open(host), failing.log)
  })
  yield* Worker.make({
    name: "the database monitor",
    runOnce: Effect.catch(session, state.close),
    interval: retryInterval
  })

  return {
    /** Notes the failure of a statement, or of the connection for one. A refused write ends all connections. */
    observe: (failure: SqlError.SqlError, statement: string) => {
      const code = codeOf(failure)
      if (code === readOnly) endSession?.(refusesWrites)
      const isRefused = failure.reason.operation === "connect"
      const lack = shortages.get(code)
      if (lack !== undefined || isRefused) failing.note(failure)
      if (lack !== undefined) {
        state.lack(lack, statement)
        needsProbe.openUnsafe()
      } else if (isRefused) state.refuse(reasonOf(failure))
      // The monitor's own session may be one of the last that this host accepted.
      if (isRefused && !state.isUnavailable() && isSent(failure) && hosts.countRefusal()) endSession?.()
    },
    onSuccess: (statement: string) => {
      hosts.forgive()
      state.succeed(statement)
    },
    problem: state.problem,
    isProbed: state.isProbed,
    needsProbe
  }
})
