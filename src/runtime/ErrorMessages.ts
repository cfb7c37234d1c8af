/** Exit codes and error messages of the service and its command line. */
import { Cause, Exit, Predicate, type Runtime } from "effect"
import { SqlError } from "effect/sql"
import { rootCauseMessage } from "../services/telemetry/RootCause.ts"

/** True if an error has this code of the operating system, such as `EEXIST`. */
export const hasCode = (error: unknown, code: string): boolean =>
  Predicate.hasProperty(error, "code") && error.code === code

/** Failures whose own message is for the operator. */
const readable = [
  "CommandFailed",
  "DatabaseUnusable",
  "EmbeddedPostgresError",
  "InvalidAssistants",
  "InvalidSettings",
  "WorkerFailed"
]

/** `settings` names the ports of the service that can be changed. */
export const cannotListen = (failure: unknown, settings = "PORT or INTERNAL_PORT") => {
  const reason = rootCauseMessage(failure)
  return reason.includes("EADDRINUSE") ? `${reason}. Set ${settings} to a free port` : reason
}

/** One line for a failure that the operator can fix; undefined for a fault of the program. */
const explain = (failure: unknown): string | undefined => {
  if (readable.some((tag) => Predicate.isTagged(failure, tag))) return rootCauseMessage(failure)
  if (Predicate.isTagged(failure, "ServeError")) return `The service cannot listen: ${cannotListen(failure)}`
  if (Predicate.isTagged(failure, "ClusterPortError")) {
    return `The service cannot listen for other nodes: ${cannotListen(failure, "CLUSTER_PORT")}`
  }
  if (Predicate.isTagged(failure, "MigrationError")) {
    return `The schema cannot be migrated: ${rootCauseMessage(failure)}`
  }
  return SqlError.isSqlError(failure) || Predicate.isTagged(failure, "StoreUnavailable")
    ? `The database cannot be used: ${rootCauseMessage(failure)}`
    : undefined
}

/** Why the process ends. Only a fault of the program has a stack trace. */
export const describe = (cause: Cause.Cause<unknown>): string => explain(Cause.squash(cause)) ?? Cause.pretty(cause)

/** A shutdown by a signal exits with 0. */
export const teardown: Runtime.Teardown = (exit, onExit) =>
  onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
