/**
 * Reads files of any kind as text, each in a worker thread of its own: bounded in bytes, time, heap and buffers, so that a
 * hostile file costs no more than an error. A user has one file read at a time, so that one user's files cannot take all
 * workers.
 */
import { Duration, Effect, Schema, Semaphore } from "effect"
import * as path from "node:path"
import { Worker } from "node:worker_threads"
import type { Extracted, Extraction } from "./extractText.ts"
import type { FoundFile } from "./FileStorage.ts"

/** The file cannot be read; the message is for the model. */
export class Unreadable extends Schema.TaggedError<Unreadable>()("Unreadable", { message: Schema.String }) {}

export const limits = {
  fileBytes: 64 * 1024 * 1024,
  heapMegabytes: 256,
  bufferBytes: 256 * 1024 * 1024,
  time: Duration.seconds(20),
  concurrency: 2
} as const

/** How often a worker's buffers are looked at. */
const watchInterval = "25 millis"

const readable = /^(txt|pdf|json|js|css|html|csv|xml|docx|xlsx?)$/

/** The worker's module, which is built when this one is. */
const worker = new URL(`./extractText${path.extname(import.meta.url)}`, import.meta.url)

const start = (extraction: Extraction) =>
  new Worker(worker, {
    workerData: extraction,
    resourceLimits: { maxOldGenerationSizeMb: limits.heapMegabytes, maxYoungGenerationSizeMb: 32 },
    // What a library prints about a file is nobody's.
    stdout: true,
    stderr: true,
    env: {}
  })

const refuse = (message: string) => Effect.fail(new Unreadable({ message }))

const answerOf = (worker: Worker) =>
  Effect.callback<Extracted, Unreadable>((resume) => {
    worker.once("message", (extracted: Extracted) => resume(Effect.succeed(extracted)))
    worker.once("error", (error: NodeJS.ErrnoException) =>
      resume(refuse(
        error.code === "ERR_WORKER_OUT_OF_MEMORY"
          ? "The file takes more memory to read than there is for one."
          : "The file cannot be read."
      )))
    worker.once("exit", () => resume(refuse("The file cannot be read.")))
  })

/** Ends when a worker's buffers, which its heap does not count, are more than they may be. */
const overflow = (worker: Worker) =>
  Effect.promise(() => worker.getHeapStatistics().then(({ external_memory }) => external_memory, () => 0)).pipe(
    Effect.delay(watchInterval),
    Effect.repeat({ until: (bytes) => bytes > limits.bufferBytes }),
    Effect.andThen(refuse("The file unpacks to more than is read."))
  )

const extract = (extraction: Extraction) =>
  Effect.acquireUseRelease(
    Effect.sync(() => start(extraction)),
    (worker) => Effect.raceFirst(answerOf(worker), overflow(worker)),
    (worker) => Effect.promise(() => worker.terminate())
  ).pipe(
    Effect.timeoutOrElse({
      duration: limits.time,
      orElse: () => refuse(`The file takes longer to read than ${Duration.format(limits.time)}.`)
    })
  )

export type FileReader = ReturnType<typeof make>

/** One permit a key, kept for as long as somebody holds it or waits for it. */
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

  /** A part of a file's text, and the length of the whole. */
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
