/** The service's half of the wire to the assistant backend (CONTRACT 5), called with the user's own token. */
import { Context, Duration, Effect, Layer, type Redacted, Ref, Schema, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { extensions, formatOf, isPlausible, signatureBytes } from "../domain/FileFormat.ts"
import * as Limits from "../domain/Limits.ts"

/** A file on its way: its bytes are pulled only as fast as the backend takes them. */
export interface IncomingFile<E> {
  readonly name: string
  readonly mimeType: string
  readonly content: Stream.Stream<Uint8Array, E>
}

const StoredFile = Schema.Struct({
  id: Schema.Union([Schema.String, Schema.Int]),
  name: Schema.String,
  mime_type: Schema.String,
  provider_data: Schema.Struct({ path: Schema.String })
})

/** SPEC "Uploaded file object". */
export interface UploadedFile {
  readonly type: "file"
  readonly file: {
    readonly id: string
    readonly name: string
    readonly mime_type: string
    readonly provider_data: { readonly path: string }
  }
}

/** The file breaks a rule: SPEC's own, or one that the backend tells in `errors`. */
export class FileRefused extends Schema.TaggedError<FileRefused>()("FileRefused", {
  message: Schema.String,
  errors: Schema.Record(Schema.String, Schema.Array(Schema.String))
}) {}

/** The backend does not take the user's token. */
export class BackendUnauthorized extends Schema.TaggedError<BackendUnauthorized>()("BackendUnauthorized", {}) {}

/** The backend did not answer, or not in its wire's words. */
export class BackendUnavailable extends Schema.TaggedError<BackendUnavailable>()("BackendUnavailable", {}) {}

type BackendError = FileRefused | BackendUnauthorized | BackendUnavailable

export const refuseFile = (message: string) => new FileRefused({ message, errors: { file: [message] } })

export const tooLarge = refuseFile(`The file is larger than ${Limits.fileBytes / 1024} KB`)

const storageBaseTtl = Duration.minutes(1)
const storageBaseTimeout = Duration.seconds(10)

const encoder = new TextEncoder()

/** RFC 7578: a quote or a line break in a name is percent-encoded, everything else stands as it is. */
const quoted = (text: string) => text.replaceAll("\"", "%22").replaceAll("\r", "%0D").replaceAll("\n", "%0A")

/** One field `file` as `multipart/form-data`, around the bytes as they come. */
const encodeForm = <E>(file: IncomingFile<E>, boundary: string) => {
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quoted(file.name)}"\r\n`
    + `Content-Type: ${file.mimeType}\r\n\r\n`
  return Stream.succeed(encoder.encode(head)).pipe(
    Stream.concat(file.content),
    Stream.concat(Stream.succeed(encoder.encode(`\r\n--${boundary}--\r\n`)))
  )
}

/** Lets a file's bytes through as long as they look like its format and are not too many. */
const checked = <E>(file: IncomingFile<E>, format: string): Stream.Stream<Uint8Array, E | FileRefused> =>
  Stream.suspend(() => {
    const head = new Uint8Array(signatureBytes)
    let seen = 0
    let size = 0
    const verdict = () =>
      isPlausible(format, head.subarray(0, seen))
        ? Effect.void
        : Effect.fail(refuseFile(`The content of the file is not ${format}`))
    return file.content.pipe(
      Stream.mapEffect((chunk): Effect.Effect<Uint8Array, FileRefused> => {
        size += chunk.length
        if (size > Limits.fileBytes) return Effect.fail(tooLarge)
        if (seen === signatureBytes || chunk.length === 0) return Effect.succeed(chunk)
        const taken = chunk.subarray(0, signatureBytes - seen)
        head.set(taken, seen)
        seen += taken.length
        return seen < signatureBytes ? Effect.succeed(chunk) : Effect.as(verdict(), chunk)
      }),
      Stream.concat(Stream.fromEffectDrain(Effect.suspend(() => seen < signatureBytes ? verdict() : Effect.void)))
    )
  })

const RefusedBody = Schema.Struct({
  message: Schema.String,
  errors: Schema.Record(Schema.String, Schema.Array(Schema.String))
})

const readStored = (response: HttpClientResponse.HttpClientResponse): Effect.Effect<UploadedFile, BackendError> => {
  const { status } = response
  if (status >= 200 && status < 300) {
    return HttpClientResponse.schemaBodyJson(StoredFile)(response).pipe(
      Effect.mapError(() => new BackendUnavailable({})),
      Effect.map((file) => ({ type: "file", file: { ...file, id: String(file.id) } }))
    )
  }
  if (status === 422) {
    return HttpClientResponse.schemaBodyJson(RefusedBody)(response).pipe(
      Effect.mapError(() => new BackendUnavailable({})),
      Effect.flatMap((body) => Effect.fail(new FileRefused(body)))
    )
  }
  if (status === 413) return Effect.fail(tooLarge)
  return Effect.fail(status === 401 || status === 403 ? new BackendUnauthorized({}) : new BackendUnavailable({}))
}

export class AssistantBackend extends Context.Service<AssistantBackend, {
  /** Streams a file to the backend; fails with the first rule that it breaks, or with `E` when its source fails. */
  readonly upload: <E>(
    token: Redacted.Redacted,
    file: IncomingFile<E>
  ) => Effect.Effect<UploadedFile, BackendError | E>
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

        const upload = Effect.fnUntraced(function*<E>(token: Redacted.Redacted, file: IncomingFile<E>) {
          const format = formatOf(file.name)
          if (format === undefined) {
            return yield* refuseFile(`Files of this format are not accepted; ${extensions.join(", ")} are`)
          }
          const boundary = `form-${yield* random.uuidV4()}`
          // A client of HTTP tells of a failing body only that it failed; what failed it is kept here.
          const failure = yield* Ref.make<E | FileRefused | undefined>(undefined)
          const content = Stream.tapError(checked(file, format), (error) => Ref.set(failure, error))
          const request = HttpClientRequest.post(`${url}/files`).pipe(
            HttpClientRequest.bearerToken(token),
            HttpClientRequest.acceptJson,
            HttpClientRequest.bodyStream(encodeForm({ ...file, content }, boundary), {
              contentType: `multipart/form-data; boundary=${boundary}`
            })
          )
          return yield* http.execute(request).pipe(
            Effect.catch(() => Effect.fail(new BackendUnavailable({}))),
            Effect.flatMap(readStored),
            Effect.catch((error) =>
              Effect.flatMap(Ref.get(failure), (known) => Effect.fail<BackendError | E>(known ?? error))
            )
          )
        })

        const askStorageBase = (token: Redacted.Redacted) =>
          HttpClientRequest.get(`${url}/storage/base`).pipe(
            HttpClientRequest.bearerToken(token),
            HttpClientRequest.acceptJson,
            http.execute,
            Effect.timeout(storageBaseTimeout),
            Effect.mapError(() => new BackendUnavailable({})),
            Effect.filterOrFail(
              ({ status }) => status >= 200 && status < 300,
              ({ status }) =>
                status === 401 || status === 403 ? new BackendUnauthorized({}) : new BackendUnavailable({})
            ),
            Effect.flatMap((response) =>
              Effect.mapError(
                HttpClientResponse.schemaBodyJson(Schema.Struct({ url: Schema.String }))(response),
                () => new BackendUnavailable({})
              )
            ),
            Effect.map((base) => base.url.replace(/\/+$/, ""))
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
