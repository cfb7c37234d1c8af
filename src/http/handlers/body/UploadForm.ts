/**
 * The one file of a `multipart/form-data` request. Its content ends only after the whole form was valid and had no second
 * file, so the backend does not store a file of an invalid form.
 */
import { Array as Arr, Cause, Effect, Pull } from "effect"
import { MultipartParser } from "effect/http"
import * as FileFormat from "../../../domain/FileFormat.ts"
import * as Limits from "../../../domain/Limits.ts"
import { type FileRefused, type IncomingFile, refuseFile, tooLarge } from "../../../services/files/AssistantBackend.ts"

type Chunks = Arr.NonEmptyReadonlyArray<Uint8Array>

const maxParts = 16
const maxFieldBytes = 64 * 1024

type Headers = MultipartParser.PartInfo["headers"]

/** The parser drops types whose parameters are not quoted as they should be: `video/webm;codecs=vp8,opus` of a browser. */
const typeIn = (headers: Headers): string => [headers["content-type"] ?? ""].flat()[0]?.split(";", 1)[0]?.trim() ?? ""

/** A part without a file name is a file if its declared type says so. Forms declare other fields as plain text, if at all. */
const isFile = ({ filename, headers, name }: MultipartParser.PartInfo) =>
  filename !== undefined
  || name === "file" && !/^text\/plain$/i.test(typeIn(headers)) &&
    FileFormat.formatOfType(typeIn(headers)) !== undefined

/** Maximum bytes of a whole request: the file, the other fields and the headers of parts. */
export const maxFormBytes = Limits.fileBytes + maxParts * 2 * maxFieldBytes

const missing = refuseFile("This field is required")
const unnamed = refuseFile("The field must be a file with a name")
const broken = refuseFile("The form is broken or was cut off")
const notAForm = refuseFile("The request must be multipart/form-data with one field, file")

// oxlint-disable-next-line eslint/no-control-regex -- the expression matches control characters
const controls = /[\0-\u001f\u007f]/g

/** The last segment of a path. RFC 7578, 4.2 forbids receivers to use folders. Both `/` and `\` separate, on any system. */
export const baseName = (name: string): string => name.replaceAll(controls, "").replace(/^.*[/\\]/s, "")

const refusalOf = (error: MultipartParser.MultipartError): FileRefused => {
  if (error._tag === "InvalidBoundary") return notAForm
  if (error._tag !== "ReachedLimit") return broken
  if (error.limit === "MaxTotalSize") return tooLarge
  return refuseFile(error.limit === "MaxParts" ? `The form has more than ${maxParts} fields` : "A field is too long")
}

const isForm = (contentType: string) => /^multipart\/form-data *(;|$)/i.test(contentType)

/** Reads up to the first bytes of the file. */
export const open = Effect.fnUntraced(function*<E>(
  contentType: string,
  source: Pull.Pull<Chunks, E>
): Effect.fn.Return<IncomingFile<E | FileRefused>, E | FileRefused> {
  if (!isForm(contentType)) return yield* notAForm
  let info: MultipartParser.PartInfo | undefined
  let content: Array<Uint8Array> = []
  let refusal: FileRefused | undefined
  let isWhole = false

  const refuse = (found: FileRefused) => {
    refusal ??= found
  }
  const parser = MultipartParser.make({
    headers: { "content-type": contentType },
    maxParts,
    maxFieldSize: maxFieldBytes,
    maxTotalSize: maxFormBytes,
    isFile,
    // The parser calls it without information about a part that ended before its content began.
    onField: (field: MultipartParser.PartInfo | undefined) => {
      if (field === undefined) refuse(broken)
      if (field?.name === "file") refuse(unnamed)
    },
    onFile: (part) => {
      if (part.name !== "file") return () => {}
      if (info !== undefined) refuse(refuseFile("Only one file may be sent at a time"))
      info ??= part
      return (chunk) => {
        if (chunk !== null) content.push(chunk)
      }
    },
    // The parser ends a truncated file before it reports the error, so the end of a file does not mean that it is complete.
    onError: (error) => refuse(refusalOf(error)),
    onDone: () => {
      isWhole = true
    }
  })

  /** Parses the next chunks; bytes after the end of the form are ignored. */
  const advance: Effect.Effect<void, E | FileRefused> = Pull.matchEffect(source, {
    onSuccess: (chunks) => {
      for (const chunk of chunks) if (!isWhole) parser.write(chunk)
      return refusal === undefined ? Effect.void : Effect.fail(refusal)
    },
    onFailure: Effect.failCause,
    onDone: () => Effect.fail(refusal ?? broken)
  })

  if (refusal !== undefined) return yield* refusal
  const find = Effect.suspend((): Effect.Effect<MultipartParser.PartInfo, E | FileRefused> => {
    if (info !== undefined) return Effect.succeed(info)
    return isWhole ? Effect.fail(missing) : Effect.flatMap(advance, () => find)
  })

  const next: Pull.Pull<Chunks, E | FileRefused> = Effect.suspend(() => {
    const chunks = content
    if (Arr.isArrayNonEmpty(chunks)) {
      content = []
      return Effect.succeed(chunks)
    }
    return isWhole ? Cause.done() : Effect.flatMap(advance, () => next)
  })
  const { filename = "", headers } = yield* find
  return { name: baseName(filename.replaceAll("\\\"", "\"")), mimeType: typeIn(headers).toLowerCase(), content: next }
})
