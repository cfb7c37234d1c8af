/**
 * The built-in backend's files: one folder each, named by an id that nothing from outside can steer. Downloads are open to
 * whoever has the link, and nothing that is stored can run as a page of ours.
 */
import { Array as Arr, Effect, FileSystem, Option, Path, Schema, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import {
  HttpRouter,
  HttpServerRequest,
  HttpServerRespondable,
  HttpServerResponse,
  HttpStaticServer,
  Multipart
} from "effect/http"
import { formatOf } from "../../domain/FileFormat.ts"
import * as Limits from "../../domain/Limits.ts"

export type FileStorage = Effect.Success<ReturnType<typeof make>>

/** No file of that id is in storage. */
export class FileMissing extends Schema.TaggedError<FileMissing>()("FileMissing", { message: Schema.String }) {}

export interface FoundFile {
  readonly path: string
  readonly name: string
  readonly size: number
  /** One of SPEC's formats, or undefined. */
  readonly format: string | undefined
}

/** The parser counts some bytes beyond the file's own; the exact bound is held by the gateway. */
const slackBytes = 1024 * 1024

const decodeId = Schema.decodeUnknownEffect(Schema.String.check(Schema.isPattern(/^[0-9a-f-]{36}$/)))

const safeName = (name: string): string =>
  name.normalize("NFKD").replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^\.+/, "").slice(-100) || "file"

const invalid = (message: string) =>
  HttpServerResponse.jsonUnsafe({ message, errors: { file: [message] } }, { status: 422 })

/** Shown in the browser; every other format is a download. */
const shownFormats = /^(png|jpg|webp|gif|txt|mp3|wav|ogg|m4a|webm|mp4)$/

/** A script is text here, so that no page of this origin can be made to run it. */
const mimeTypes = { js: "text/plain; charset=utf-8", m4a: "audio/mp4", mkv: "video/x-matroska" }

const guard = (url: string) =>
  HttpServerResponse.setHeaders({
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Content-Disposition": shownFormats.test(formatOf(url.split("?", 1)[0] ?? "") ?? "") ? "inline" : "attachment"
  })

/** The file system takes no longer name, and there is none. */
const isPossible = (url: string) => (url.split("?", 1)[0] ?? "").length < 256

const notFound = HttpServerResponse.empty({ status: 404 })

export const make = Effect.fnUntraced(function*(root: string) {
  const files = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const random = yield* SecureRandom.SecureRandom
  yield* files.makeDirectory(root, { recursive: true })

  /** Keeps a file; one that breaks off leaves nothing behind. */
  const store = Effect.fnUntraced(function*<E>(name: string, mimeType: string, content: Stream.Stream<Uint8Array, E>) {
    const id = yield* random.uuidV4()
    const relative = `${id}/${safeName(name)}`
    yield* files.makeDirectory(paths.join(root, id))
    yield* Stream.run(content, files.sink(paths.join(root, relative))).pipe(
      Effect.onError(() => Effect.ignore(files.remove(paths.join(root, id), { recursive: true })))
    )
    return { id, name, mime_type: mimeType, provider_data: { path: relative } }
  })

  /** `POST /files`: one multipart field `file`, streamed to disk. */
  const upload = Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const stored = yield* request.multipartStream.pipe(
      Stream.filter((part) => Multipart.isFile(part)),
      Stream.filter(({ key }) => key === "file"),
      Stream.mapEffect((part) => store(part.name, part.contentType, part.content)),
      Stream.runLast
    )
    return Option.match(stored, {
      onNone: () => invalid("The field file is required"),
      onSome: (file) => HttpServerResponse.jsonUnsafe(file, { status: 201 })
    })
  }).pipe(
    Effect.provideContext(
      // A file of JSON is a file, although Effect takes such parts for fields unless told otherwise.
      Multipart.limitsServices({ maxParts: 10, maxFileSize: Limits.fileBytes + slackBytes, fieldMimeTypes: [] })
    ),
    Effect.catchTag("MultipartError", (error) => Effect.succeed(invalid(error.reason._tag))),
    Effect.orDie
  )

  /** Finds a file by its id alone: a path that came with it is not looked at. */
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
    upload,
    store,
    find,
    read: (file: FoundFile) => Effect.orDie(files.readFile(file.path)),
    /** SPEC "GET /api/storage/base": downloads need no token. */
    publicRoutes: HttpRouter.use((router) =>
      Effect.gen(function*() {
        const serve = yield* HttpStaticServer.make({
          root,
          index: undefined,
          mimeTypes,
          cacheControl: "public, max-age=31536000, immutable"
        })
        const handler = Effect.flatMap(
          HttpServerRequest.HttpServerRequest,
          ({ url }) => isPossible(url) ? Effect.map(serve, guard(url)) : Effect.succeed(notFound)
        )
        const storage = router.prefixed("/storage")
        yield* storage.add("GET", "/*", Effect.catch(handler, HttpServerRespondable.toResponse))
      })
    )
  }
})
