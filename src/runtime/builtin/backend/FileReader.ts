/**
 * Reads files as text, each in a process of its own, because V8 ends its whole process when a heap is full, whatever the limits
 * of a worker thread. A reader that dies is an error for the model and nothing else. Each user has one file read at a time, so
 * that one user cannot occupy all readers.
 */
import { Duration, Effect, Option, Schema } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, realpathSync } from "node:fs"
import { createRequire } from "node:module"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import * as FairPermits from "../../../services/limits/FairPermits.ts"
import { packageFile } from "../../Version.ts"
import type { Extraction } from "./extractText.ts"
import type { FoundFile } from "./FileStorage.ts"

/** The file cannot be read; the message is returned to the model. */
class Unreadable extends Schema.TaggedError<Unreadable>()("Unreadable", { message: Schema.String }) {}

class NotStarted extends Schema.TaggedError<NotStarted>()("NotStarted", { error: Schema.Unknown }) {}

export const limits = {
  fileBytes: 64 * 1024 * 1024,
  heapMegabytes: 256,
  /** All memory that the process may write, on Linux; V8 reserves 512 MiB of it for code and uses little of that. */
  dataMegabytes: 1024,
  time: Duration.seconds(20),
  /** Seconds of all threads of the process together. */
  cpuSeconds: 40,
  concurrency: 2
} as const

/** Maximum bytes of a character in the JSON of a result, and of the rest of the result. */
const characterBytes = 6
const restBytes = 4096

const readable = /^(txt|pdf|json|js|css|html|csv|xml|docx|xlsx?)$/

/** The program of the process: TypeScript in the sources, JavaScript in the build. */
const extractText = fileURLToPath(new URL(`./extractText${path.extname(import.meta.url)}`, import.meta.url))

/** A program's command. Node lets it read itself and its libraries, and neither write, start anything nor, since Node 25, connect. */
const commandOf = (program: string) => [
  process.execPath,
  `--max-old-space-size=${limits.heapMegabytes}`,
  "--max-semi-space-size=16",
  // Collections of a full heap would take all cores.
  "--single-threaded-gc",
  "--permission",
  ...[path.dirname(program), packageFile, ...createRequire(program).resolve.paths("unpdf") ?? []]
    .filter((each) => existsSync(each))
    // Node reads by both addresses of a linked directory.
    .flatMap((each) => [...new Set([each, realpathSync(each)])].map((address) => `--allow-fs-read=${address}`)),
  program
]

/**
 * Runs the reader, its arguments, on the file `$0`, with bounds of the kernel that no flag lifts, as the first process to be
 * killed when memory is short. Kills it when the standard input ends: this process closes it, or its death does.
 */
const script = `
{
  ulimit -c 0
  ulimit -f 0
  ulimit -t ${limits.cpuSeconds}
  ulimit -d ${limits.dataMegabytes * 1024}
  echo 1000 >/proc/self/oom_score_adj
} 2>/dev/null
"$@" <"$0" 3>&1 >/dev/null 2>&1 &
exec >&-
read -r _
kill -KILL $!
wait $!`

const refuse = (message: string) => Effect.fail(new Unreadable({ message }))

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Union([
  Schema.Struct({ text: Schema.String, total: Schema.Int }),
  Schema.Struct({ problem: Schema.String })
])))

const start = (command: ReadonlyArray<string>, file: string, extraction: Extraction) =>
  spawn("/bin/sh", ["-c", script, file, ...command, JSON.stringify(extraction)], {
    // Neither the settings of this process, which have secrets, nor NODE_OPTIONS.
    env: {},
    // A group of its own, which is killed as a whole, and to which a terminal sends no Ctrl-C: a service that stops still reads.
    detached: true,
    stdio: ["pipe", "pipe", "ignore"]
  })

const kill = ({ pid }: ChildProcess) => {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL")
  } catch {
    // It has just ended.
  }
}

interface Ended {
  readonly code: number | null
  readonly output: string
}

/** Runs a reader until it ends, and kills it when it writes too much or the fiber is interrupted. */
const run = (command: ReadonlyArray<string>, file: string, extraction: Extraction) =>
  Effect.callback<Ended, NotStarted>((resume) => {
    const reader = start(command, file, extraction)
    const maxBytes = extraction.characters * characterBytes + restBytes
    const chunks: Array<Buffer> = []
    let bytes = 0
    const fail = (error: Error) => {
      kill(reader)
      resume(new NotStarted({ error }))
    }
    // Without a listener an error would end this process.
    for (const part of [reader, reader.stdin, reader.stdout]) part.on("error", fail)
    reader.stdout.on("data", (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > maxBytes) kill(reader)
      else chunks.push(chunk)
    })
    reader.stdout.once("end", () => reader.stdin.destroy())
    reader.once("close", (code) => resume(Effect.sync(() => ({ code, output: Buffer.concat(chunks).toString() }))))
    return Effect.callback<void>((stopped) => {
      reader.once("close", () => stopped(Effect.void))
      kill(reader)
    })
  })

const extract = (...reading: Parameters<typeof run>) =>
  run(...reading).pipe(
    // `spawn` throws when the system has no more processes or descriptors.
    Effect.catchDefect((error) => new NotStarted({ error })),
    Effect.timeoutOrElse({
      duration: limits.time,
      orElse: () => refuse(`The file cannot be read: it takes longer than ${Duration.format(limits.time)}.`)
    })
  )

export type FileReader = ReturnType<typeof make>

/** `program` is what reads, in the place of `extractText.ts`. */
export const make = (program = extractText) => {
  const command = commandOf(program)
  const permits = FairPermits.make({ total: limits.concurrency, perHolder: 1 })

  /** Reads a part of a file's text. Returns it with the length of the whole text. */
  const read = Effect.fnUntraced(
    function*(file: FoundFile, offset: number, characters: number, user: string) {
      const { format = "", path, size } = file
      if (!readable.test(format)) {
        return yield* new Unreadable({ message: `Files of the format ${format || "unknown"} cannot be read as text.` })
      }
      if (size > limits.fileBytes) {
        return yield* new Unreadable({ message: `The file is larger than ${limits.fileBytes / 1024 / 1024} MB.` })
      }
      const { code, output } = yield* Effect.scoped(
        Effect.andThen(permits.take(user, 1), extract(command, path, { format, offset, characters }))
      )
      const extracted = Option.getOrElse(decode(output), () => ({ problem: undefined }))
      if ("text" in extracted) return extracted
      const { problem } = extracted
      yield* Effect.logInfo("a file could not be read", { format, problem: problem ?? `the reader ended with ${code}` })
      return yield* refuse(
        problem === undefined
          ? "The file cannot be read: it is broken, or takes more memory than allowed."
          : `The file is not a ${format} that can be read: it is broken or locked.`
      )
    },
    Effect.catchTag("NotStarted", ({ error }) =>
      Effect.andThen(
        Effect.logWarning("the reader of a file could not be started", error),
        refuse("The file cannot be read now.")
      ))
  )

  return { read }
}
