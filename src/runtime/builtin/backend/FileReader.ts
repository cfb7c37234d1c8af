/**
 * Reads files as text, each in a separate worker thread with limits on bytes, time, heap and buffers, so that a hostile file
 * causes no more than an error. Each user has one file read at a time, so that one user cannot occupy all workers.
 */
import { Duration, Effect, Schema, Semaphore } from "effect"
import * as path from "node:path"
import { Worker } from "node:worker_threads"
import type { Extracted, Extraction } from "./extractText.ts"
import type { FoundFile } from "./FileStorage.ts"

/** The file cannot be read; the message is returned to the model. */
export class Unreadable extends Schema.TaggedError<Unreadable>()("Unreadable", { message: Schema.String }) {}

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

/** One permit per key. A key's entry exists only while the permit is held or awaited. */
const makePermits = () => {
  const permits = new Map<string, { readonly permit: Semaphore.Semaphore; users: number }>()
  return (key: string) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        const entry = permits.get(key) ?? { permit: Semaphore.makeUnsafe(1), users: 0 }
        entry.users++
        permits.set(key, entry)
        return entry
      }),
      ({ permit }) => permit.withPermit(effect),
      (entry) => Effect.sync(() => --entry.users === 0 && permits.delete(key))
    )
}

export const make = () => {
  const workers = Semaphore.makeUnsafe(limits.concurrency)
  const withPermitOf = makePermits()

  /** Reads a part of a file's text. Returns it with the length of the whole text. */
  const read = Effect.fnUntraced(function*(file: FoundFile, offset: number, characters: number, user: string) {
    const { format = "", path, size } = file
    if (!readable.test(format)) {
      return yield* new Unreadable({ message: `Files of the format ${format || "unknown"} cannot be read as text.` })
    }
    if (size > limits.fileBytes) {
      return yield* new Unreadable({ message: `The file is larger than ${limits.fileBytes / 1024 / 1024} MB.` })
    }
    const extracted = yield* extract({ path, format, offset, characters }).pipe(
      workers.withPermit,
      withPermitOf(user)
    )
    if ("problem" in extracted) {
      yield* Effect.logInfo("a file could not be read", { format, problem: extracted.problem })
      return yield* new Unreadable({ message: `The file is not a ${format} that can be read: it is broken or locked.` })
    }
    return extracted
  })

  return { read }
}
