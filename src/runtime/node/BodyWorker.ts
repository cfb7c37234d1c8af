/**
 * Decodes large bodies on a thread of its own, so that parsing and checking them delays nobody. The thread starts with the
 * first of them. One that runs out of memory or time is replaced, at the cost of the one body that it was at work on.
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

/** Errors lose their class between threads. */
export type Outcome =
  | { readonly decoded: Decoded<unknown> }
  | { readonly message: string; readonly errors: ValidationFailed["errors"] }

class ThreadEnded extends Schema.TaggedError<ThreadEnded>()("ThreadEnded", { cause: Schema.Defect() }) {}

/** MiB. The worst body within the bounds takes two thirds of the old generation; a small young one saves memory. */
const resourceLimits = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 8 }

/** The worst body within the bounds takes about a second. */
const patience = Duration.seconds(30)

const file = path.join(import.meta.dirname, `BodyWorkerThread${path.extname(import.meta.filename)}`)

export const layer = Layer.effect(
  LargeBodies,
  Effect.gen(function*() {
    let worker: Worker | undefined
    const permits = FairPermits.make({ total: 1, perHolder: 1 })

    const dismiss = () => {
      const dismissed = worker
      worker = undefined
      return dismissed?.terminate()
    }

    const start = () => {
      const started = new Worker(file, { resourceLimits, execArgv: [] })
      // The process may end while it waits.
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
        // Nobody waits for it any more, and the next body shall not wait for it either.
        return Effect.sync(() => {
          stopListening()
          void dismiss()
        })
      })

    yield* Effect.addFinalizer(() => Effect.promise(() => Promise.resolve(dismiss())))

    const decode = Effect.fnUntraced(
      function*<Name extends BodyName>(name: Name, bytes: Uint8Array<ArrayBuffer>, operation: string | undefined) {
        yield* permits.take("", 1)
        const outcome = yield* Effect.orDie(Effect.timeout(run({ name, bytes, operation }), patience))
        if ("decoded" in outcome) return outcome.decoded as Decoded<BodyOf<Name>>
        return yield* new ValidationFailed(outcome)
      },
      Effect.scoped
    )

    return { decode }
  })
)
