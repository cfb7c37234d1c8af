/**
 * The built-in backend's files: one folder per file, named by a random id. Downloads are open to everyone who has the link,
 * and no stored file can run as a page of this origin.
 */
import { Array as Arr, Effect, FileSystem, Path, PlatformError, Predicate, Pull, Schema, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import {
  HttpRouter,
  HttpServerRequest,
  HttpServerRespondable,
  HttpServerResponse,
  HttpStaticServer,
  Multipart
} from "effect/http"
import { createHash } from "node:crypto"
import { formatOf } from "../../../domain/FileFormat.ts"
import * as Limits from "../../../domain/Limits.ts"
import * as DataDirectory from "../../config/DataDirectory.ts"
import type { StorageFull, StorageQuota } from "./StorageQuota.ts"

export type FileStorage = Effect.Success<ReturnType<typeof make>>

/** No file with that id is in storage. */
class FileMissing extends Schema.TaggedError<FileMissing>()("FileMissing", { message: Schema.String }) {}

export interface FoundFile {
  readonly path: string
  readonly name: string
  readonly size: number
  /** One of the accepted formats in domain/FileFormat.ts, or undefined. */
  readonly format: string | undefined
}

/** The parser also counts bytes around the file; the gateway enforces the exact limit. */
const slackBytes = 1024 * 1024

const decodeId = Schema.decodeUnknownEffect(Schema.String.check(Schema.isPattern(/^[0-9a-f-]{36}$/)))

/** The path of a stored file, as `store` generates it. All other paths are 404. */
const pathPattern = /^\/[0-9a-f-]{36}\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/

const safeName = (name: string): string =>
  name.normalize("NFKD").replace(/[^A-Za-z0-9._-]+/g, "_").slice(-100).replace(/^\.+/, "") || "file"

const invalid = (message: string) =>
  HttpServerResponse.jsonUnsafe({ message, errors: { file: [message] } }, { status: 422 })

/** Formats that browsers may display; all others are downloads. */
const inlineFormats = /^(png|jpg|webp|gif|txt|mp3|wav|ogg|m4a|webm|mp4)$/

/** Scripts are served as text, so that no page can run them from this origin. */
const mimeTypes = { js: "text/plain; charset=utf-8", m4a: "audio/mp4", mkv: "video/x-matroska" }

const guard = (url: string) =>
  HttpServerResponse.setHeaders({
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Content-Disposition": inlineFormats.test(formatOf(url.split("?", 1)[0] ?? "") ?? "") ? "inline" : "attachment"
  })

const isPossible = (url: string) => {
  const [path = ""] = url.split("?", 1)
  try {
    return path.length < 512 && pathPattern.test(decodeURIComponent(path))
  } catch {
    return false
  }
}

/** True if the path is a symbolic link, a folder or an unreadable file, all of which are answered with 404. */
const isNoFile = (error: unknown) =>
  Predicate.hasProperty(error, "cause") && error.cause instanceof PlatformError.PlatformError
  && ["BadResource", "PermissionDenied"].includes(error.cause.reason._tag)

const notFound = HttpServerResponse.empty({ status: 404 })

export interface StorageOptions {
  readonly root: string
  readonly quota: StorageQuota
}

const digestOf = <E>(content: Stream.Stream<Uint8Array, E>) =>
  Effect.suspend(() => {
    const hash = createHash("sha256")
    return Effect.map(
      Stream.runForEach(content, (chunk) => Effect.sync(() => hash.update(chunk))),
      () => hash.digest("hex")
    )
  })

/** Downloads, which need no token. */
const publicRoutesOf = (root: string) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const serve = yield* HttpStaticServer.make({
      root,
      index: undefined,
      mimeTypes,
      cacheControl: "public, max-age=31536000, immutable"
    })
    const handler = Effect.flatMap(
      HttpServerRequest.HttpServerRequest,
      ({ url }) => isPossible(url) ? Effect.map(serve, guard(url)) : Effect.succeed(notFound)
    ).pipe(Effect.catchIf(isNoFile, () => Effect.succeed(notFound)))
    const storage = router.prefixed("/storage")
    yield* storage.add("GET", "/*", Effect.catch(handler, HttpServerRespondable.toResponse))
  }))

type Store = <E>(
  user: string,
  name: string,
  mimeType: string,
  content: Stream.Stream<Uint8Array, E>
) => Effect.Effect<object, E | StorageFull | PlatformError.PlatformError>

/** The form has a second file. */
class SecondFile extends Schema.TaggedError<SecondFile>()("SecondFile", {}) {}

/** `POST /files`: one multipart field `file`, streamed to disk. It is kept only if the whole form is valid. */
const makeUpload = (store: Store) =>
  Effect.fnUntraced(
    function*(user: string) {
      const request = yield* HttpServerRequest.HttpServerRequest
      const pull = yield* request.multipartStream.pipe(
        Stream.filter((part) => Multipart.isFile(part)),
        // The parser waits until the content of a part has been read.
        Stream.filterEffect((part) =>
          part.key === "file" ? Effect.succeed(true) : Effect.as(Stream.runDrain(part.content), false)
        ),
        Stream.rechunk(1),
        Stream.toPull
      )
      const [part] = yield* Pull.catchDone(pull, () => Effect.succeed([]))
      if (part === undefined) return invalid("The field file is required")
      const rest = Stream.mapEffect(Stream.fromPull(Effect.succeed(pull)), () => new SecondFile())
      const file = yield* store(user, part.name, part.contentType, Stream.concat(part.content, rest))
      return HttpServerResponse.jsonUnsafe(file, { status: 201 })
    },
    Effect.scoped,
    Effect.provideContext(
      // By default Effect treats parts of JSON as fields, even with a file name.
      Multipart.limitsServices({ maxParts: 10, maxFileSize: Limits.fileBytes + slackBytes, fieldMimeTypes: [] })
    ),
    Effect.catchTags({
      MultipartError: (error) => Effect.succeed(invalid(error.reason._tag)),
      SecondFile: () => Effect.succeed(invalid("Only one file may be sent at a time")),
      StorageFull: ({ message }) => Effect.succeed(invalid(message))
    }),
    Effect.orDie
  )

export const make = Effect.fnUntraced(function*({ quota, root }: StorageOptions) {
  const files = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const random = yield* SecureRandom.SecureRandom
  DataDirectory.makePrivate(root)

  /** Stores a file within the user's quota. A failed upload leaves nothing behind. */
  const store = Effect.fnUntraced(
    function*<E>(user: string, name: string, mimeType: string, content: Stream.Stream<Uint8Array, E>) {
      const meter = yield* quota.open(user)
      const id = yield* random.uuidV4()
      const relative = `${id}/${safeName(name)}`
      yield* files.makeDirectory(paths.join(root, id), { mode: DataDirectory.privateDirectory })
      yield* content.pipe(
        Stream.tap((chunk) => meter.pass(chunk.length)),
        Stream.run(files.sink(paths.join(root, relative), { mode: DataDirectory.privateFile })),
        Effect.andThen(meter.keep),
        Effect.onError(() => Effect.ignore(files.remove(paths.join(root, id), { recursive: true })))
      )
      return { id, name, mime_type: mimeType, provider_data: { path: relative } }
    },
    Effect.scoped
  )

  /** Finds a file by its id alone. A client's `path` is never used. */
  const find = Effect.fnUntraced(
    function*(id: unknown) {
      const folder = paths.join(root, yield* decodeId(id))
      const name = yield* Effect.fromOption(Arr.head(yield* files.readDirectory(folder)))
      const path = paths.join(folder, name)
      const { size } = yield* files.stat(path)
      const found: FoundFile = { path, name, size: Number(size), format: formatOf(name) }
      return found
    },
    (effect, id) =>
      Effect.mapError(effect, () => new FileMissing({ message: `There is no file ${String(id)} in storage.` }))
  )

  return {
    upload: makeUpload(store),
    store,
    find,
    read: (file: FoundFile) => Effect.orDie(files.readFile(file.path)),
    /** The SHA-256 of a file in hex, computed from a stream. */
    digest: (file: FoundFile) => Effect.orDie(digestOf(files.stream(file.path))),
    publicRoutes: publicRoutesOf(root)
  }
})
