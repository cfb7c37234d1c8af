/**
 * Reads files as text, each in a separate worker thread with limits on bytes, time, heap and buffers, so that a hostile file
 * causes no more than an error. Each user has one file read at a time, so that one user cannot occupy all workers.
 */
import { Duration, Effect, Schema } from "effect"
import * as path from "node:path"
import { Worker } from "node:worker_threads"
import * as FairPermits from "../../../services/limits/FairPermits.ts"
import type { Extracted, Extraction } from "./extractText.ts"
import type { FoundFile } from "./FileStorage.ts"

/** The file cannot be read; the message is returned to the model. */
class Unreadable extends Schema.TaggedError<Unreadable>()("Unreadable", { message: Schema.String }) {}

export const limits = {
  fileBytes: 64 * 1024 * 1024,
  heapMegabytes: 256,
  bufferBytes: 256 * 1024 * 1024,
  time: Duration.seconds(20),
  concurrency: 2
} as const

/** Interval between checks of a worker's buffers. */
const checkInterval = "25 millis"

const readable = /^(txt|pdf|json|js|css|html|csv|xml|docx|xlsx?)$/

/** The worker's module: TypeScript in the sources, JavaScript in the build. */
const worker = new URL(`./extractText${path.extname(import.meta.url)}`, import.meta.url)

const start = (extraction: Extraction) =>
  new Worker(worker, {
    workerData: extraction,
    resourceLimits: { maxOldGenerationSizeMb: limits.heapMegabytes, maxYoungGenerationSizeMb: 32 },
    // Discards what libraries print about a file.
    stdout: true,
    stderr: true,
    env: {}
  })

const refuse = (message: string) => Effect.fail(new Unreadable({ message }))

const resultOf = (worker: Worker) =>
  Effect.callback<Extracted, Unreadable>((resume) => {
    worker.once("message", (extracted: Extracted) => resume(Effect.succeed(extracted)))
    worker.once("error", (error: NodeJS.ErrnoException) =>
      resume(refuse(
        error.code === "ERR_WORKER_OUT_OF_MEMORY"
          ? "Reading the file takes more memory than allowed."
          : "The file cannot be read."
      )))
    worker.once("exit", () => resume(refuse("The file cannot be read.")))
  })

/** Fails when a worker's buffers, which are outside of its heap, exceed their limit. */
const overflow = (worker: Worker) =>
  Effect.promise(() => worker.getHeapStatistics().then(({ external_memory }) => external_memory, () => 0)).pipe(
    Effect.delay(checkInterval),
    Effect.repeat({ until: (bytes) => bytes > limits.bufferBytes }),
    Effect.andThen(refuse("The unpacked file is larger than allowed."))
  )

const extract = (extraction: Extraction) =>
  Effect.acquireUseRelease(
    Effect.sync(() => start(extraction)),
    (worker) => Effect.raceFirst(resultOf(worker), overflow(worker)),
    (worker) => Effect.promise(() => worker.terminate())
  ).pipe(
    Effect.timeoutOrElse({
      duration: limits.time,
      orElse: () => refuse(`Reading the file takes longer than ${Duration.format(limits.time)}.`)
    })
  )

export type FileReader = ReturnType<typeof make>

export const make = () => {
  const permits = FairPermits.make({ total: limits.concurrency, perHolder: 1 })

  /** Reads a part of a file's text. Returns it with the length of the whole text. */
  const read = Effect.fnUntraced(function*(file: FoundFile, offset: number, characters: number, user: string) {
    const { format = "", path, size } = file
    if (!readable.test(format)) {
      return yield* new Unreadable({ message: `Files of the format ${format || "unknown"} cannot be read as text.` })
    }
    if (size > limits.fileBytes) {
      return yield* new Unreadable({ message: `The file is larger than ${limits.fileBytes / 1024 / 1024} MB.` })
    }
    const extracted = yield* Effect.scoped(
      Effect.andThen(permits.take(user, 1), extract({ path, format, offset, characters }))
    )
    if ("problem" in extracted) {
      yield* Effect.logInfo("a file could not be read", { format, problem: extracted.problem })
      return yield* new Unreadable({ message: `The file is not a ${format} that can be read: it is broken or locked.` })
    }
    return extracted
  })

  return { read }
}
