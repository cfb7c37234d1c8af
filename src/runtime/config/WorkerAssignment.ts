/** The assignment of a process of `WORKERS` by the first one, which starts it: see `runtime/Workers.ts`. */
import { Schema } from "effect"

const Assignment = Schema.Struct({
  /** From 1. */
  number: Schema.Int,
  count: Schema.Int,
  /** The embedded database; null if there is another. */
  databaseUrl: Schema.NullOr(Schema.String),
  cluster: Schema.Struct({ host: Schema.String, port: Schema.Int }),
  /** The port of this machine at which it alone serves the internal routes, to the other workers. */
  ownPort: Schema.Int,
  /** Those of all workers, in the order of their numbers. They change when one had to take another. */
  ports: Schema.mutable(Schema.Array(Schema.Int))
})
export type WorkerAssignment = typeof Assignment.Type

/** The variable that has it. */
const variable = "TASK_SERVICE_WORKER"

const Json = Schema.fromJsonString(Assignment)

export const toEnvironment = (assignment: WorkerAssignment) => ({
  [variable]: Schema.encodeSync(Json)(assignment)
})

/** Undefined for a process that is no worker. */
export const read = (environment: Readonly<Record<string, string | undefined>>): WorkerAssignment | undefined => {
  const text = environment[variable]
  return text === undefined ? undefined : Schema.decodeUnknownSync(Json)(text)
}
