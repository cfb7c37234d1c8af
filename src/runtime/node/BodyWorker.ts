/**
 * Decodes large bodies on a worker thread, so that parsing and validation do not block the event loop. The first large body
 * starts the thread. A thread that runs out of memory or time is replaced; only the body that it was decoding fails.
 */
import { Duration, Effect, Layer, Schema } from "effect"
import * as path from "node:path"
import { Worker } from "node:worker_threads"
import { ValidationFailed } from "../../http/contract/Errors.ts"
import type { BodyName, BodyOf } from "../../http/handlers/body/Bodies.ts"
import { LargeBodies } from "../../http/handlers/body/BodyReader.ts"
import type { Decoded } from "../../http/handlers/body/JsonBody.ts"
import * as FairPermits from "../../services/limits/FairPermits.ts"

export interface Job {
  readonly name: BodyName
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly operation: string | undefined
}

/** A plain object, because errors lose their class between threads. */
export type Outcome =
  | { readonly decoded: Decoded<unknown> }
  | { readonly message: string; readonly errors: ValidationFailed["errors"] }

class ThreadEnded extends Schema.TaggedError<ThreadEnded>()("ThreadEnded", { cause: Schema.Defect() }) {}

/** MiB. The worst allowed body uses two thirds of the old generation; a small young generation saves memory. */
const resourceLimits = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 8 }

/** The worst allowed body takes about a second. */
const decodeTimeout = Duration.seconds(30)

const file = path.join(import.meta.dirname, `BodyWorkerThread${path.extname(import.meta.filename)}`)

export const layer = Layer.effect(
  LargeBodies,
  Effect.gen(function*() {
    let worker: Worker | undefined
    const permits = FairPermits.make({ total: 1, perHolder: 1 })

    const terminate = () => {
      const current = worker
      worker = undefined
      return current?.terminate()
    }

    const start = () => {
      const started = new Worker(file, { resourceLimits, execArgv: [] })
      // An idle worker must not keep the process alive.
      started.unref()
      return started
    }

    const run = (job: Job) =>
      Effect.callback<Outcome, ThreadEnded>((resume) => {
        const current = worker ??= start()
        const stopListening = () => {
          current.off("message", onMessage).off("error", onError).off("exit", onExit)
        }
        const end = (outcome: Effect.Effect<Outcome, ThreadEnded>) => {
          stopListening()
          resume(outcome)
        }
        const fail = (cause: unknown) => {
          worker = undefined
          end(Effect.fail(new ThreadEnded({ cause })))
        }
        const onMessage = (outcome: Outcome) => end(Effect.succeed(outcome))
        const onError = (cause: unknown) => fail(cause)
        const onExit = (code: number) => fail(code)
        current.on("message", onMessage).on("error", onError).on("exit", onExit)
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
        current.postMessage(job, [job.bytes.buffer])
        // The result is no longer needed, and the next body must not wait for it.
        return Effect.sync(() => {
          stopListening()
          void terminate()
        })
      })

    yield* Effect.addFinalizer(() => Effect.promise(() => Promise.resolve(terminate())))

    const decode = Effect.fnUntraced(
      function*<Name extends BodyName>(name: Name, bytes: Uint8Array<ArrayBuffer>, operation: string | undefined) {
        yield* permits.take("", 1)
        const outcome = yield* Effect.orDie(Effect.timeout(run({ name, bytes, operation }), decodeTimeout))
        // Messages between threads have no type; the thread has decoded the body `name`.
        if ("decoded" in outcome) return outcome.decoded as Decoded<BodyOf<Name>>
        return yield* new ValidationFailed(outcome)
      },
      Effect.scoped
    )

    return { decode }
  })
)
