/** The log on the console: one JSON object a line in production, readable lines otherwise. */
import { Cause, Console, Effect, Formatter, Layer, Logger, Schema } from "effect"
import * as Setting from "../../services/settings/Setting.ts"
import * as Tracing from "../../services/telemetry/Tracing.ts"
import { describe } from "../ErrorMessages.ts"

/** Lines with the ids of their span, named as OpenTelemetry recommends for logs. */
const consoleJson = Logger.withConsoleLog(Logger.make<unknown, string>((options) => {
  const span = Tracing.currentSpan(options.fiber)
  const ids = span === undefined ? {} : { trace_id: span.traceId, span_id: span.spanId }
  return Formatter.formatJson({ ...Logger.formatStructured.log(options), ...ids })
}))

/** Logs what Node would print in its own format: its warnings, and the exception that ends the process. */
const layerProcess = Layer.effectDiscard(Effect.gen(function*() {
  const run = Effect.runSyncWith(yield* Effect.context())
  const onWarning = ({ message, name }: Error) => run(Effect.logWarning(`Node: ${name}: ${message}`))
  const onException = (error: Error) => {
    run(Effect.logFatal("uncaught exception", Cause.die(error)))
    process.exit(1)
  }
  const printers = process.listeners("warning")
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      process.removeAllListeners("warning").on("warning", onWarning).on("uncaughtException", onException)
    }),
    () =>
      Effect.sync(() => {
        process.off("warning", onWarning).off("uncaughtException", onException)
        for (const printer of printers) process.on("warning", printer)
      })
  )
}))

const layer = (isJson: boolean) =>
  isJson
    ? Layer.provideMerge(layerProcess, Logger.layer([consoleJson]))
    : Logger.layer([Logger.consolePretty()])

/** The log has the reason. */
export class ProcessFailed extends Schema.TaggedError<ProcessFailed>()("ProcessFailed", {}) {}

/** Provides the log of a process, and logs why the process fails. */
export const provide = <A, E, R>(process: Effect.Effect<A, E, R>, environment: NodeJS.ProcessEnv) => {
  const isJson = Setting.isProduction(Setting.clean(environment))
  return process.pipe(
    Effect.catchCause((cause) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
      const message = describe(cause)
      return Effect.andThen(isJson ? Effect.logFatal(message) : Console.error(message), new ProcessFailed())
    }),
    Effect.provide(layer(isJson))
  )
}
