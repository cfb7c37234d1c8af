/** The service's calls to the assistant backend: uploads and the storage's base URL, with the user's own token. */
import {
  Array as Arr,
  Cache,
  Cause,
  Clock,
  Context,
  Duration,
  Effect,
  Exit,
  Layer,
  Pull,
  type Redacted,
  Schema,
  Stream
} from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { isStorable } from "../../domain/Fields.ts"
import * as FileFormat from "../../domain/FileFormat.ts"
import { encode, fromJsonText, sizeOf, textOf } from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { scan } from "../../domain/json/Scanner.ts"
import { object, raw, small } from "../../domain/json/Shape.ts"
import { Kind } from "../../domain/json/tables.ts"
import * as Limits from "../../domain/Limits.ts"
import * as BoundedBody from "../limits/BoundedBody.ts"
import { PassedBytes } from "../limits/Memory.ts"
import * as OutageLog from "../telemetry/OutageLog.ts"
import { rootCauseMessage } from "../telemetry/RootCause.ts"
import * as IdleTimeout from "../timing/IdleTimeout.ts"
import { Timeouts } from "../timing/Intervals.ts"

type Chunks = Arr.NonEmptyReadonlyArray<Uint8Array>

/** A file that is being uploaded. Its bytes are pulled only as fast as the backend accepts them. */
export interface IncomingFile<E> {
  /** Empty if the file has none; its declared type then has to be that of an accepted format. */
  readonly name: string
  /** As it is declared, with parameters; empty without. */
  readonly mimeType: string
  readonly content: Pull.Pull<Chunks, E>
}

/** The answer to an upload, which a client may send back as an input item. */
const Text = Schema.String.check(Schema.makeFilter(isStorable))
const StoredFile = Schema.Struct({
  id: Text,
  name: Text,
  mime_type: Text,
  provider_data: Schema.Struct({ path: Text })
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
class BackendRefused extends Schema.TaggedError<BackendRefused>()("BackendRefused", { body: Schema.String }) {}

/** The backend refuses the user's token. */
export class BackendUnauthorized extends Schema.TaggedError<BackendUnauthorized>()("BackendUnauthorized", {}) {}

/** The backend did not respond, or its response does not follow the protocol. */
export class BackendUnavailable extends Schema.TaggedError<BackendUnavailable>()("BackendUnavailable", {
  /** For the log. */
  reason: Schema.String
}) {}

/** The service has no assistant backend, and no directory for files. */
export class FilesNotKept extends Schema.TaggedError<FilesNotKept>()("FilesNotKept", { message: Schema.String }) {}

const filesNotKept = new FilesNotKept({
  message: "This service keeps no files: it has no assistant backend, and FILES_DIR is not set"
})

const unavailable = (reason: string) => new BackendUnavailable({ reason })
const unreadable = unavailable("its response does not follow the protocol")
const silent = unavailable("it does not answer")
const toUnavailable = (error: unknown) => unavailable(rootCauseMessage(error))

type BackendError = BackendRefused | BackendUnauthorized | BackendUnavailable
/** Why a file was not stored. */
export type UploadError = FileRefused | FilesNotKept | BackendError

export const refuseFile = (message: string) => new FileRefused({ message, errors: { file: [message] } })

export const tooLarge = refuseFile(`The file is larger than ${Limits.fileBytes / 1024} KB`)

const answerTtl = Duration.minutes(1)
const readTimeout = Duration.seconds(10)

/** Bytes of a response; a longer one counts as a failure of the backend. */
const maxAnswerBytes = 1024 * 1024

const encoder = new TextEncoder()

/** RFC 7578: quotes and line breaks in a name are percent-encoded; everything else stays unchanged. */
const quoted = (text: string) => text.replaceAll("\"", "%22").replaceAll("\r", "%0D").replaceAll("\n", "%0A")

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

/** The fields of an answer that are read. The `id` stays as it came: as numbers, ids above 2^53 lose digits. */
const answer = object({
  id: raw,
  name: small,
  mime_type: small,
  provider_data: object({ path: small }),
  message: small,
  errors: raw
})

/** An answer with its `id` as text; undefined if it is no JSON object. */
const parse = (text: string): { readonly [field: string]: unknown } | undefined => {
  const bytes = encode(text)
  const { problem, root } = scan(bytes, answer)
  if (problem !== undefined || root?.kind !== Kind.object) return undefined
  const fields = RawJson.decodable(root, bytes).value as { readonly [field: string]: unknown }
  const { id } = fields
  if (!(id instanceof RawJson.RawJson)) return fields
  const digits = textOf(id.bytes)
  return { ...fields, id: id.kind === Kind.string ? RawJson.stringOf(id) : /^-?\d+$/.test(digits) ? digits : undefined }
}

const isStored = Schema.is(StoredFile)
const isObject = Schema.is(RawJson.AnyObject)

/** The list may be long; only its first assistants are kept. */
const maxAssistants = 1000
/** Users whose lists are kept. */
const assistantLists = 100
/** Names that are kept for operators, before a list is added. */
const maxNames = 10_000

const Assistants = Schema.Struct({
  data: Schema.Array(Schema.Struct({
    id: Schema.Int,
    name: Schema.String,
    description: Schema.optional(Schema.NullOr(Schema.String))
  }))
})
const decodeAssistants = Schema.decodeUnknownEffect(fromJsonText(Assistants))

/** An assistant as the backend lists it. */
export type ListedAssistant = typeof Assistants.Type["data"][number]

const decodeStorageBase = Schema.decodeUnknownEffect(fromJsonText(Schema.Struct({ url: Schema.String })))

const readText = (response: HttpClientResponse.HttpClientResponse) =>
  Effect.mapError(
    BoundedBody.readText(response, maxAnswerBytes),
    (error) => error._tag === "BodyTooLong" ? unavailable("its response is too long") : toUnavailable(error)
  )

const readStored = Effect.fnUntraced(function*(
  response: HttpClientResponse.HttpClientResponse
): Effect.fn.Return<UploadedFile, FileRefused | BackendError> {
  const { status } = response
  if (status === 413) return yield* tooLarge
  if (status === 401 || status === 403) return yield* new BackendUnauthorized({})
  const isSuccess = status >= 200 && status < 300
  if (!isSuccess && status !== 422) return yield* unavailable(`status ${status}`)
  const body = yield* readText(response)
  const value = parse(body)
  if (isSuccess && isStored(value)) {
    const { id, mime_type, name, provider_data: { path } } = value
    return { type: "file", file: { id, name, mime_type, provider_data: { path } } }
  }
  const isRefusal = typeof value?.["message"] === "string" && isObject(value["errors"])
  return yield* !isSuccess && isRefusal ? new BackendRefused({ body }) : unreadable
})

interface Client {
  /** Without a trailing slash. */
  readonly url: string
  readonly http: HttpClient.HttpClient
  readonly boundary: Effect.Effect<string>
  readonly onPassed: (bytes: number) => void
}

const notAccepted = refuseFile(
  `Files of this format are not accepted; ${FileFormat.extensions.join(", ")} are. `
    + "The extension of the name says the format, or the content type if the name has no extension."
)

/** The file as it is passed on, with its format. */
const identify = <E>({ content, mimeType, name }: IncomingFile<E>) => {
  const found = FileFormat.identify(name, mimeType)
  if (found === undefined) return Effect.fail(notAccepted)
  return FileFormat.contradicts(found.format, found.mimeType)
    ? Effect.fail(refuseFile(`The declared type of the file is not that of ${found.format}`))
    : Effect.succeed({ ...found, content })
}

/** The form with the file. `state` shows how much of it the HTTP client has pulled, and why the file failed. */
const formOf = <E>(
  { content, mimeType, name }: IncomingFile<E>,
  head: ReadonlyArray<Uint8Array>,
  boundary: string,
  idle: Effect.Success<ReturnType<typeof IdleTimeout.make>>,
  onPassed: Client["onPassed"]
) => {
  // The HTTP client reports only that the body failed, so the cause is kept here.
  const state: { step: "opening" | "passing" | "closed"; failure: Cause.Cause<E | FileRefused> | undefined } = {
    step: "opening",
    failure: undefined
  }
  let size = 0
  const fail = (cause: Cause.Cause<E | FileRefused>) => {
    state.failure = cause
    return Effect.failCause(cause)
  }
  const pass = <A extends ReadonlyArray<Uint8Array>>(chunks: A): Effect.Effect<A, E | FileRefused> => {
    idle.begin()
    const more = sizeOf(chunks)
    onPassed(more)
    size += more
    return size > Limits.fileBytes ? fail(Cause.fail(tooLarge)) : Effect.succeed(chunks)
  }
  const next = Pull.matchEffect(content, {
    onSuccess: pass,
    onFailure: fail,
    onDone: () => {
      idle.begin()
      state.step = "closed"
      return Effect.succeed(Arr.of(encoder.encode(`\r\n--${boundary}--\r\n`)))
    }
  })
  const opening = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quoted(name)}"\r\n`
    + `Content-Type: ${mimeType}\r\n\r\n`
  const body = Effect.suspend((): Pull.Pull<Chunks, E | FileRefused> => {
    if (state.step === "closed") return Cause.done()
    if (state.step === "passing") {
      idle.end()
      return next
    }
    state.step = "passing"
    return Effect.map(pass(head), () => [encoder.encode(opening), ...head])
  })
  return { body, state }
}

const upload = Effect.fnUntraced(function*<E>(client: Client, token: Redacted.Redacted, given: IncomingFile<E>) {
  const file = yield* identify(given)
  const head = yield* readHead(file.content, file.format)
  const idle = yield* IdleTimeout.make((yield* Timeouts).backendIdle)
  const boundary = yield* client.boundary
  const { body, state } = formOf(file, head, boundary, idle, client.onPassed)
  const request = HttpClientRequest.post(`${client.url}/files`).pipe(
    HttpClientRequest.bearerToken(token),
    HttpClientRequest.acceptJson,
    HttpClientRequest.bodyStream(Stream.fromPull(Effect.succeed(body)), {
      contentType: `multipart/form-data; boundary=${boundary}`
    })
  )
  idle.begin()
  return yield* HttpClient.withScope(client.http).execute(request).pipe(
    Effect.mapError(toUnavailable),
    Effect.flatMap(readStored),
    // Success before our last byte means a truncated file: fail.
    Effect.filterOrFail(() => state.step === "closed", () => unavailable("it answered before the end of a file")),
    Effect.catch((error): Effect.Effect<never, UploadError | E> =>
      state.failure === undefined ? Effect.fail(error) : Effect.failCause(state.failure)
    ),
    Effect.raceFirst(Effect.andThen(idle.exceeded, Effect.fail(silent)))
  )
}, Effect.scoped)

/** The text at a path; undefined when the backend answers with one of the statuses in `absent`. */
const fetchText = ({ http, url }: Client, token: Redacted.Redacted, path: string, absent: ReadonlyArray<number> = []) =>
  HttpClientRequest.get(url + path).pipe(
    HttpClientRequest.bearerToken(token),
    HttpClientRequest.acceptJson,
    HttpClient.withScope(http).execute,
    Effect.mapError(toUnavailable),
    Effect.filterOrFail(
      ({ status }) => status >= 200 && status < 300 || absent.includes(status),
      ({ status }) => status === 401 || status === 403 ? new BackendUnauthorized({}) : unavailable(`status ${status}`)
    ),
    Effect.flatMap((response) => absent.includes(response.status) ? Effect.undefined : readText(response)),
    Effect.scoped,
    Effect.timeoutOrElse({
      duration: readTimeout,
      orElse: () => Effect.fail(silent)
    })
  )

const fetchStorageBase = (client: Client, token: Redacted.Redacted) =>
  fetchText(client, token, "/storage/base").pipe(
    Effect.flatMap((text) => Effect.mapError(decodeStorageBase(text), () => unreadable)),
    Effect.map((base) => base.url.replace(/(?<!\/)\/+$/, ""))
  )

const fetchAssistants = (client: Client, token: Redacted.Redacted) =>
  Effect.flatMap(fetchText(client, token, "/assistants", [404, 405]), (text) =>
    text === undefined
      ? Effect.succeed([])
      : Effect.mapBoth(decodeAssistants(text), {
        onSuccess: ({ data }) => data.slice(0, maxAssistants),
        onFailure: () => unreadable
      }))

/** For links to the files of a turn: empty without a storage, so that the path of the core is shown. */
export const storageBaseOrNone = (backend: AssistantBackend["Service"], token: Redacted.Redacted) =>
  Effect.catchTag(backend.storageBase(token), "FilesNotKept", () => Effect.succeed(""))

export class AssistantBackend extends Context.Service<AssistantBackend, {
  /** Fails when nothing keeps files, before anything is read of one. */
  readonly requireFiles: Effect.Effect<void, FilesNotKept>
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
  ) => Effect.Effect<string, FilesNotKept | BackendUnauthorized | BackendUnavailable>
  /** The assistants that the backend lists for the user, at most 1000; empty when it lists none. Cached for a minute. */
  readonly assistants: (
    token: Redacted.Redacted
  ) => Effect.Effect<ReadonlyArray<ListedAssistant>, BackendUnauthorized | BackendUnavailable>
  /** The name of an assistant in the lists of users that this node read; null if it is in none. */
  readonly nameOf: (id: number) => string | null
}>()("async-task-service/services/files/AssistantBackend") {
  /** Without an assistant backend: no files, and no list of assistants. */
  static readonly layerNone = Layer.succeed(AssistantBackend, {
    requireFiles: Effect.fail(filesNotKept),
    upload: () => Effect.fail(filesNotKept),
    storageBase: () => Effect.fail(filesNotKept),
    assistants: () => Effect.succeed([]),
    nameOf: () => null
  })

  /** `url` is without a trailing slash. */
  static readonly layer = (url: string) =>
    Layer.effect(
      AssistantBackend,
      Effect.gen(function*() {
        const random = yield* SecureRandom.SecureRandom
        const client: Client = {
          url,
          http: yield* HttpClient.HttpClient,
          boundary: Effect.map(random.uuidV4(), (id) => `form-${id}`),
          onPassed: yield* PassedBytes
        }
        const outage = OutageLog.make()
        const logged = <A, E>(call: Effect.Effect<A, E>) =>
          Effect.tapError(call, (error) =>
            error instanceof BackendUnavailable
              ? outage.log(`The assistant backend is unavailable: ${error.reason}. Clients get 502`)
              : Effect.void)
        // The base URL is the same for all users. Failures are not cached.
        let known: { readonly url: string; readonly until: number } | undefined
        const storageBase = Effect.fnUntraced(function*(token: Redacted.Redacted) {
          const now = yield* Clock.currentTimeMillis
          if (known !== undefined && known.until > now) return known.url
          const base = yield* logged(fetchStorageBase(client, token))
          known = { url: base, until: now + Duration.toMillis(answerTtl) }
          return base
        })
        const names = new Map<number, string>()
        const noteNames = (listed: ReadonlyArray<ListedAssistant>) =>
          Effect.sync(() => {
            if (names.size > maxNames) names.clear()
            for (const { id, name } of listed) names.set(id, name)
          })
        const assistants = yield* Cache.makeWith(
          (token: Redacted.Redacted) => Effect.tap(logged(fetchAssistants(client, token)), noteNames),
          { capacity: assistantLists, timeToLive: (exit) => Exit.isSuccess(exit) ? answerTtl : Duration.zero }
        )
        return AssistantBackend.of({
          requireFiles: Effect.void,
          upload: (token, file) => logged(upload(client, token, file)),
          storageBase,
          assistants: (token) => Cache.get(assistants, token),
          nameOf: (id) => names.get(id) ?? null
        })
      })
    )
}
