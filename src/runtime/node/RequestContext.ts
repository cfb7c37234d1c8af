/**
 * The context of requests: that of the process, such as loggers, tracer and clock, without the services of the layers. Handlers
 * received these when they were built, and Effect copies the whole context several times for each request.
 */
import { Clock, Context, Effect, Layer } from "effect"

/** The context in which the layers of the service are built. */
const ProcessContext = Context.Reference<Context.Context<never> | undefined>(
  "async-task-service/runtime/node/RequestContext/ProcessContext",
  { defaultValue: () => undefined }
)

/** Build it outside of all services. */
export const layer = Layer.effect(ProcessContext, Effect.context<never>())

/** Services that may be added to the context before Effect copies all of it. A request adds about ten. */
const maxDepth = 16

/** Without `layer`, requests have the context in which their server was started. */
export const get: Effect.Effect<Context.Context<never>> = Effect.contextWith((context: Context.Context<never>) => {
  const started = Context.get(context, ProcessContext)
  return started === undefined
    ? Effect.succeed(context)
    : Effect.clockWith((clock) =>
      Effect.succeed(Context.makeUnsafe(Context.add(started, Clock.Clock, clock).mapUnsafe, { maxDepth }))
    )
})
