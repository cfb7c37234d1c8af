/** The command `upload`, with a progress bar. */
import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as fs from "node:fs"
import * as path from "node:path"
import { asFailure, call, described, print, root } from "./Root.ts"

const width = 30

const megabytes = (bytes: number) => `${(bytes / 1_000_000).toFixed(1)} MB`

const bar = (name: string, loaded: number, total: number) => {
  const filled = total === 0 ? width : Math.round((loaded / total) * width)
  return `\r${name}  [${"=".repeat(filled)}${" ".repeat(width - filled)}]  ${megabytes(loaded)} of ${megabytes(total)}`
}

/** Uploads a file without reading it into memory. The progress bar appears on terminals only. */
export const uploadFile = Effect.fnUntraced(function*(file: string, type: string | undefined) {
  const { json } = yield* root
  const content = yield* Effect.tryPromise({ try: () => fs.openAsBlob(file), catch: asFailure })
  const name = path.basename(file)
  const showsProgress = process.stderr.isTTY && !json
  const onProgress = ({ loaded }: { readonly loaded: number }) => {
    if (showsProgress) process.stderr.write(bar(name, loaded, content.size))
  }
  return yield* call((client, signal) => client.files.upload(content, { name, type, onProgress, signal })).pipe(
    Effect.ensuring(Effect.sync(() => showsProgress && process.stderr.write("\n")))
  )
})

export const command = Command.make("upload", {
  file: Argument.File("file", { mustExist: true }).pipe(Argument.withDescription("Path of the file")),
  type: Flag.String("type").pipe(Flag.withDescription("Media type of the file"), Flag.optional)
}, ({ file, type }) =>
  Effect.gen(function*() {
    const uploaded = yield* uploadFile(file, Option.getOrUndefined(type))
    const url = yield* call((client) => client.files.url(uploaded))
    yield* print({ ...uploaded, url }, ({ file: { id } }) => `${id}  ${url}`)
  })).pipe(described("Upload a file; --json prints an input item for a task", "upload report.pdf"))
