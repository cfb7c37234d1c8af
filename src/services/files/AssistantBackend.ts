/** The service's calls to the assistant backend: uploads and the storage's base URL, with the user's own token. */
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
import * as FileFormat from "../../domain/FileFormat.ts"
import * as Limits from "../../domain/Limits.ts"
import * as BoundedText from "../limits/BoundedText.ts"
import * as IdleTimeout from "../timing/IdleTimeout.ts"
import { Timeouts } from "../timing/Timeouts.ts"
import { PassedBytes } from "./PassedBytes.ts"

type Chunks = Arr.NonEmptyReadonlyArray<Uint8Array>

/** A file that is being uploaded. Its bytes are pulled only as fast as the backend accepts them. */
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

/** The response of `POST /api/files`, usable as an input item. */
export interface UploadedFile {
  readonly type: "file"
  readonly file: typeof StoredFile.Type
}

/** The file breaks a rule of this service (size, format), or one that the backend reports in `errors`. */
export class FileRefused extends Schema.TaggedError<FileRefused>()("FileRefused", {
  message: Schema.String,
  errors: Schema.Record(Schema.String, Schema.Array(Schema.String))
}) {}

/** The backend refuses the file with a body that is returned to the client unchanged. */
export class BackendRefused extends Schema.TaggedError<BackendRefused>()("BackendRefused", { body: Schema.String }) {}

/** The backend refuses the user's token. */
export class BackendUnauthorized extends Schema.TaggedError<BackendUnauthorized>()("BackendUnauthorized", {}) {}

/** The backend did not respond, or its response does not follow the protocol. */
export class BackendUnavailable extends Schema.TaggedError<BackendUnavailable>()("BackendUnavailable", {}) {}

type BackendError = BackendRefused | BackendUnauthorized | BackendUnavailable
type UploadError = FileRefused | BackendError

export const refuseFile = (message: string) => new FileRefused({ message, errors: { file: [message] } })

export const tooLarge = refuseFile(`The file is larger than ${Limits.fileBytes / 1024} KB`)

const storageBaseTtl = Duration.minutes(1)
const storageBaseTimeout = Duration.seconds(10)

/** Bytes of a response; a longer one counts as a failure of the backend. */
const maxAnswerBytes = 1024 * 1024

const encoder = new TextEncoder()

/** RFC 7578: quotes and line breaks in a name are percent-encoded; everything else stays unchanged. */
const quoted = (text: string) => text.replaceAll("\"", "%22").replaceAll("\r", "%0D").replaceAll("\n", "%0A")

const sizeOf = (chunks: ReadonlyArray<Uint8Array>) => chunks.reduce((size, chunk) => size + chunk.length, 0)

/** Reads the first chunks of a file, enough to check its format. Nothing is sent to the backend before this check. */
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

/** Keeps the digits of a numeric id as text, because ids above 2^53 lose digits as numbers. */
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
  /**
   * Streams a file to the backend. It fails at the first broken rule, or with `E` when the source of the file fails.
   */
  readonly upload: <E>(
    token: Redacted.Redacted,
    file: IncomingFile<E>
  ) => Effect.Effect<UploadedFile, UploadError | E>
  /** The public base URL of the storage, without a trailing slash; cached for a minute. */
  readonly storageBase: (
    token: Redacted.Redacted
  ) => Effect.Effect<string, BackendUnauthorized | BackendUnavailable>
}>()("async-task-service/services/files/AssistantBackend") {
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
          const idle = yield* IdleTimeout.make((yield* Timeouts).backendIdle)
          const boundary = `form-${yield* random.uuidV4()}`
          const opening =
            `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quoted(file.name)}"\r\n`
            + `Content-Type: ${file.mimeType}\r\n\r\n`
          const closing = `\r\n--${boundary}--\r\n`

          // The HTTP client reports only that the body failed, so the cause is kept here.
          let failure: Cause.Cause<E | FileRefused> | undefined
          const fail = (cause: Cause.Cause<E | FileRefused>) => {
            failure = cause
            return Effect.failCause(cause)
          }
          let state: "opening" | "passing" | "closed" = "opening"
          let size = 0
          const pass = <A extends ReadonlyArray<Uint8Array>>(chunks: A): Effect.Effect<A, E | FileRefused> => {
            idle.begin()
            const more = sizeOf(chunks)
            onPassed(more)
            size += more
            return size > Limits.fileBytes ? fail(Cause.fail(tooLarge)) : Effect.succeed(chunks)
          }
          const next = Pull.matchEffect(file.content, {
            onSuccess: pass,
            onFailure: fail,
            onDone: () => {
              idle.begin()
              state = "closed"
              return Effect.succeed(Arr.of(encoder.encode(closing)))
            }
          })
          const body = Effect.suspend((): Pull.Pull<Chunks, E | FileRefused> => {
            if (state === "closed") return Cause.done()
            if (state === "passing") {
              idle.end()
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
          idle.begin()
          return yield* HttpClient.withScope(http).execute(request).pipe(
            Effect.mapError(() => new BackendUnavailable({})),
            Effect.flatMap(readStored),
            // Success before our last byte means a truncated file: fail.
            Effect.filterOrFail(() => state === "closed", () => new BackendUnavailable({})),
            Effect.catch((error): Effect.Effect<never, UploadError | E> =>
              failure === undefined ? Effect.fail(error) : Effect.failCause(failure)
            ),
            Effect.raceFirst(Effect.andThen(idle.exceeded, Effect.fail(new BackendUnavailable({}))))
          )
        }, Effect.scoped)

        const fetchStorageBase = (token: Redacted.Redacted) =>
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

        // The base URL is the same for all users. Failures are not cached.
        const known = yield* Ref.make<{ readonly url: string; readonly until: number } | undefined>(undefined)
        const storageBase = Effect.fnUntraced(function*(token: Redacted.Redacted) {
          const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
          const cached = yield* Ref.get(known)
          if (cached !== undefined && cached.until > now) return cached.url
          const base = yield* fetchStorageBase(token)
          yield* Ref.set(known, { url: base, until: now + Duration.toMillis(storageBaseTtl) })
          return base
        })

        return AssistantBackend.of({ upload, storageBase })
      })
    )
}
