/** The service's half of the wire to the assistant backend (CONTRACT 5), called with the user's own token. */
import {
  Array as Arr,
  Cause,
  Context,
  Duration,
  Effect,
  Layer,
  Predicate,
  Pull,
  type Redacted,
  Ref,
  Schema,
  Stream
} from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import * as FileFormat from "../domain/FileFormat.ts"
import * as Limits from "../domain/Limits.ts"
import * as BoundedText from "./BoundedText.ts"
import { PassedBytes } from "./PassedBytes.ts"
import * as Silence from "./Silence.ts"
import { Timeouts } from "./Timeouts.ts"

type Chunks = Arr.NonEmptyReadonlyArray<Uint8Array>

/** A file on its way: its bytes are pulled only as fast as the backend takes them. */
export interface IncomingFile<E> {
  readonly name: string
  readonly mimeType: string
  readonly content: Pull.Pull<Chunks, E>
}

const StoredFile = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  mime_type: Schema.String,
  provider_data: Schema.Struct({ path: Schema.String })
})

/** SPEC "Uploaded file object". */
export interface UploadedFile {
  readonly type: "file"
  readonly file: typeof StoredFile.Type
}

/** The file breaks a rule: SPEC's own, or one that the backend tells in `errors`. */
export class FileRefused extends Schema.TaggedError<FileRefused>()("FileRefused", {
  message: Schema.String,
  errors: Schema.Record(Schema.String, Schema.Array(Schema.String))
}) {}

/** The backend refuses the file with a body that the client is to see as it is. */
export class BackendRefused extends Schema.TaggedError<BackendRefused>()("BackendRefused", { body: Schema.String }) {}

/** The backend does not take the user's token. */
export class BackendUnauthorized extends Schema.TaggedError<BackendUnauthorized>()("BackendUnauthorized", {}) {}

/** The backend did not answer, or not in its wire's words. */
export class BackendUnavailable extends Schema.TaggedError<BackendUnavailable>()("BackendUnavailable", {}) {}

type BackendError = BackendRefused | BackendUnauthorized | BackendUnavailable
type UploadError = FileRefused | BackendError

export const refuseFile = (message: string) => new FileRefused({ message, errors: { file: [message] } })

export const tooLarge = refuseFile(`The file is larger than ${Limits.fileBytes / 1024} KB`)

const storageBaseTtl = Duration.minutes(1)
const storageBaseTimeout = Duration.seconds(10)

/** Bytes of an answer; a longer one is not in the wire's words. */
const maxAnswerBytes = 1024 * 1024

const encoder = new TextEncoder()

/** RFC 7578: a quote or a line break in a name is percent-encoded, everything else stands as it is. */
const quoted = (text: string) => text.replaceAll("\"", "%22").replaceAll("\r", "%0D").replaceAll("\n", "%0A")

const sizeOf = (chunks: ReadonlyArray<Uint8Array>) => chunks.reduce((size, chunk) => size + chunk.length, 0)

/** The first chunks of a file, with the bytes by which it may be refused. Nothing is sent before they are seen. */
const readHead = Effect.fnUntraced(function*<E>(
  pull: Pull.Pull<Chunks, E>,
  format: string
): Effect.fn.Return<ReadonlyArray<Uint8Array>, E | FileRefused> {
  const chunks: Array<Uint8Array> = []
  const more = Pull.matchEffect(pull, {
    onSuccess: (next) => Effect.sync(() => chunks.push(...next) > 0),
    onFailure: Effect.failCause,
    onDone: () => Effect.succeed(false)
  })
  let size = 0
  while (size < FileFormat.headBytes && (yield* more)) size = sizeOf(chunks)
  const head = new Uint8Array(Math.min(size, FileFormat.headBytes))
  let seen = 0
  for (const chunk of chunks) {
    const taken = chunk.subarray(0, head.length - seen)
    head.set(taken, seen)
    seen += taken.length
  }
  if (size === 0 && !FileFormat.mayBeEmpty(format)) return yield* refuseFile("The file is empty")
  if (FileFormat.isDangerous(format, head)) {
    return yield* refuseFile(`The content of the file is a program or a script, not ${format}`)
  }
  return chunks
})

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> => Predicate.isObject(value)

/** A number's digits are kept as they stand: an id may be longer than a number is exact. */
const exactId = (key: string, value: unknown, context?: { readonly source?: string }) =>
  key === "id" && typeof value === "number" && /^-?\d+$/.test(context?.source ?? "") ? context?.source : value

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text, exactId)
  } catch {
    return undefined
  }
}

const isStored = Schema.is(StoredFile)

const decodeStorageBase = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.Struct({ url: Schema.String }))
)

const readText = (response: HttpClientResponse.HttpClientResponse) =>
  Effect.mapError(BoundedText.read(response, maxAnswerBytes), () => new BackendUnavailable({}))

const readStored = Effect.fnUntraced(function*(
  response: HttpClientResponse.HttpClientResponse
): Effect.fn.Return<UploadedFile, FileRefused | BackendError> {
  const { status } = response
  if (status === 413) return yield* tooLarge
  if (status === 401 || status === 403) return yield* new BackendUnauthorized({})
  const isSuccess = status >= 200 && status < 300
  if (!isSuccess && status !== 422) return yield* new BackendUnavailable({})
  const body = yield* readText(response)
  const value = parse(body)
  if (isSuccess && isStored(value)) {
    const { id, mime_type, name, provider_data: { path } } = value
    return { type: "file", file: { id, name, mime_type, provider_data: { path } } }
  }
  const isRefusal = isObject(value) && typeof value["message"] === "string" && isObject(value["errors"])
  return yield* !isSuccess && isRefusal ? new BackendRefused({ body }) : new BackendUnavailable({})
})

export class AssistantBackend extends Context.Service<AssistantBackend, {
  /** Streams a file to the backend; fails with the first rule that it breaks, or with `E` when its source fails. */
  readonly upload: <E>(
    token: Redacted.Redacted,
    file: IncomingFile<E>
  ) => Effect.Effect<UploadedFile, UploadError | E>
  /** Public base URL of the storage, without a trailing slash; asked for once a minute. */
  readonly storageBase: (
    token: Redacted.Redacted
  ) => Effect.Effect<string, BackendUnauthorized | BackendUnavailable>
}>()("async-task-service/services/AssistantBackend") {
  /** `url` is without a trailing slash. */
  static readonly layer = (url: string) =>
    Layer.effect(
      AssistantBackend,
      Effect.gen(function*() {
        const http = yield* HttpClient.HttpClient
        const random = yield* SecureRandom.SecureRandom
        const onPassed = yield* PassedBytes

        const upload = Effect.fnUntraced(function*<E>(token: Redacted.Redacted, file: IncomingFile<E>) {
          const format = FileFormat.formatOf(file.name)
          if (format === undefined) {
            return yield* refuseFile(`Files of this format are not accepted; ${FileFormat.extensions.join(", ")} are`)
          }
          if (FileFormat.contradicts(format, file.mimeType)) {
            return yield* refuseFile(`The declared type of the file is not that of ${format}`)
          }
          const head = yield* readHead(file.content, format)
          const silence = yield* Silence.make((yield* Timeouts).backendSilence)
          const boundary = `form-${yield* random.uuidV4()}`
          const opening =
            `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quoted(file.name)}"\r\n`
            + `Content-Type: ${file.mimeType}\r\n\r\n`
          const closing = `\r\n--${boundary}--\r\n`

          // A client of HTTP tells of a failing body only that it failed; what failed it is kept here.
          let failure: Cause.Cause<E | FileRefused> | undefined
          const fail = (cause: Cause.Cause<E | FileRefused>) => {
            failure = cause
            return Effect.failCause(cause)
          }
          let state: "opening" | "passing" | "closed" = "opening"
          let size = 0
          const pass = <A extends ReadonlyArray<Uint8Array>>(chunks: A): Effect.Effect<A, E | FileRefused> => {
            silence.begin()
            const more = sizeOf(chunks)
            onPassed(more)
            size += more
            return size > Limits.fileBytes ? fail(Cause.fail(tooLarge)) : Effect.succeed(chunks)
          }
          const next = Pull.matchEffect(file.content, {
            onSuccess: pass,
            onFailure: fail,
            onDone: () => {
              silence.begin()
              state = "closed"
              return Effect.succeed(Arr.of(encoder.encode(closing)))
            }
          })
          const body = Effect.suspend((): Pull.Pull<Chunks, E | FileRefused> => {
            if (state === "closed") return Cause.done()
            if (state === "passing") {
              silence.end()
              return next
            }
            state = "passing"
            return Effect.map(pass(head), () => [encoder.encode(opening), ...head])
          })

          const request = HttpClientRequest.post(`${url}/files`).pipe(
            HttpClientRequest.bearerToken(token),
            HttpClientRequest.acceptJson,
            HttpClientRequest.bodyStream(Stream.fromPull(Effect.succeed(body)), {
              contentType: `multipart/form-data; boundary=${boundary}`
            })
          )
          silence.begin()
          return yield* HttpClient.withScope(http).execute(request).pipe(
            Effect.mapError(() => new BackendUnavailable({})),
            Effect.flatMap(readStored),
            // Who has stored a file before its end was sent has stored something else.
            Effect.filterOrFail(() => state === "closed", () => new BackendUnavailable({})),
            Effect.catch((error): Effect.Effect<never, UploadError | E> =>
              failure === undefined ? Effect.fail(error) : Effect.failCause(failure)
            ),
            Effect.raceFirst(Effect.andThen(silence.exceeded, Effect.fail(new BackendUnavailable({}))))
          )
        }, Effect.scoped)

        const askStorageBase = (token: Redacted.Redacted) =>
          HttpClientRequest.get(`${url}/storage/base`).pipe(
            HttpClientRequest.bearerToken(token),
            HttpClientRequest.acceptJson,
            HttpClient.withScope(http).execute,
            Effect.mapError(() => new BackendUnavailable({})),
            Effect.filterOrFail(
              ({ status }) => status >= 200 && status < 300,
              ({ status }) =>
                status === 401 || status === 403 ? new BackendUnauthorized({}) : new BackendUnavailable({})
            ),
            Effect.flatMap(readText),
            Effect.flatMap((text) => Effect.mapError(decodeStorageBase(text), () => new BackendUnavailable({}))),
            Effect.map((base) => base.url.replace(/(?<!\/)\/+$/, "")),
            Effect.scoped,
            Effect.timeoutOrElse({
              duration: storageBaseTimeout,
              orElse: () => Effect.fail(new BackendUnavailable({}))
            })
          )

        // The base is the same for all users; a failure is not kept.
        const known = yield* Ref.make<{ readonly url: string; readonly until: number } | undefined>(undefined)
        const storageBase = Effect.fnUntraced(function*(token: Redacted.Redacted) {
          const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
          const cached = yield* Ref.get(known)
          if (cached !== undefined && cached.until > now) return cached.url
          const base = yield* askStorageBase(token)
          yield* Ref.set(known, { url: base, until: now + Duration.toMillis(storageBaseTtl) })
          return base
        })

        return AssistantBackend.of({ upload, storageBase })
      })
    )
}
