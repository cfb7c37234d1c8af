/**
 * The context of requests: the loggers, tracer and clock of the process, without its services. Handlers received these when
 * they were built, and Effect copies the whole context twice for each request.
 */
import { Clock, Context, Effect, Layer, Logger, References, Tracer } from "effect"
import { HttpClient, HttpMiddleware, UrlParams } from "effect/http"

/** The context in which the layers of the service are built. */
const ProcessContext = Context.Reference<Context.Context<never> | undefined>(
  "async-task-service/runtime/node/RequestContext/ProcessContext",
  { defaultValue: () => undefined }
)

/** Build it outside of all services. */
export const layer = Layer.effect(ProcessContext, Effect.context<never>())

/** Keeps the references that the process sets for requests in `telemetry/Observability`, `telemetry/Logs` and `Main`. */
const pick = Context.pick(
  Logger.CurrentLoggers,
  References.MinimumLogLevel,
  References.CurrentLogAnnotations,
  References.TracerEnabled,
  Tracer.Tracer,
  HttpClient.TracerPropagationEnabled,
  HttpMiddleware.SpanNameGenerator,
  HttpMiddleware.TracerDisabledWhen,
  UrlParams.CurrentRedactedNames
)

/** Services that may be added before Effect copies the context, instead of 8 (Effect-TS/effect#6828). A request adds about ten. */
const maxDepth = 16

/** Without `layer`, requests have the context in which their server was started. */
export const get: Effect.Effect<Context.Context<never>> = Effect.contextWith((context: Context.Context<never>) => {
  const started = Context.get(context, ProcessContext)
  return started === undefined
    ? Effect.succeed(context)
    : Effect.clockWith((clock) =>
      Effect.succeed(Context.makeUnsafe(Context.add(pick(started), Clock.Clock, clock).mapUnsafe, { maxDepth }))
    )
})
