/** The routes of the OpenAI façade: `/v1/responses`, `/v1/files` and `/v1/models`. */
import { Effect, Redacted, type Scope, Stream } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import { RawJson } from "../../domain/json/RawJson.ts"
import { type Writable, write } from "../../domain/json/Writer.ts"
import type { Caller } from "../../domain/Principal.ts"
import { TaskNotFound } from "../../domain/TaskErrors.ts"
import { now, unixSeconds } from "../../domain/Timestamp.ts"
import { AssistantBackend } from "../../services/files/AssistantBackend.ts"
import { Changes } from "../../services/signals/Changes.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { makeClient, slicesOf } from "../../services/tasks/Turns.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import * as Held from "../facades/Held.ts"
import * as Models from "../facades/Models.ts"
import { bearerOf, makeAuthenticate } from "../handlers/Authorization.ts"
import { BodyReader } from "../handlers/body/BodyReader.ts"
import { makeSend } from "../handlers/TaskReading.ts"
import { Uploads } from "../handlers/Uploads.ts"
import { pathOf } from "../Routes.ts"
import * as Create from "./Create.ts"
import {
  catchFailure,
  type Failure,
  fileNotFound,
  inputNotKept,
  invalid,
  notCancellable,
  unsupported
} from "./Errors.ts"
import * as Events from "./Events.ts"
import * as Ids from "./Ids.ts"
import * as InputItems from "./InputItems.ts"
import * as Query from "./Query.ts"
import { createResponse } from "./Request.ts"
import * as Response from "./Response.ts"
import * as Responses from "./Responses.ts"

const json = (body: Writable) =>
  HttpServerResponse.uint8Array(OpaqueJson.encode(OpaqueJson.fromValue(body)), { contentType: "application/json" })

const endOfEvent = OpaqueJson.encode("\n\n")
const lastFrame: Held.Frame = Stream.make(OpaqueJson.encode("data: [DONE]\n\n"))

const frameOf = (event: Events.ResponseEvent): Held.Frame => {
  if (event === Events.done) return lastFrame
  const begin = OpaqueJson.encode(`event: ${event.type}\ndata: `)
  const json = OpaqueJson.toBytes(write(event))
  if (!OpaqueJson.isLarge({ length: OpaqueJson.sizeOf(json) })) {
    return Stream.make(OpaqueJson.concat([begin, Held.onOneLine(OpaqueJson.concat(json)), endOfEvent]))
  }
  return Stream.make(begin).pipe(
    Stream.concat(Stream.map(slicesOf(json), Held.onOneLine)),
    Stream.concat(Stream.make(endOfEvent))
  )
}

type Parts = ReadonlyArray<string | undefined>
type Handler = (
  caller: Caller,
  parts: Parts
) => Effect.Effect<
  HttpServerResponse.HttpServerResponse,
  Failure,
  HttpServerRequest.HttpServerRequest | HttpServerRequest.ParsedSearchParams | Scope.Scope
>

const legOf = (id = "") => {
  const leg = id.startsWith("resp_") ? Ids.parse(id) : undefined
  return leg === undefined ? Effect.fail(new TaskNotFound({})) : Effect.succeed(leg)
}

/** Responses that last until the end of a leg. */
const makeStreams = Effect.fnUntraced(function*(responses: Responses.Responses) {
  const open = yield* Held.makeOpen

  /** Answers with the events above `after`. */
  const stream = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId, after: number) {
    const client = makeClient()
    const events = yield* responses.events(client, caller, id, after)
    return yield* open(client, Stream.map(events, frameOf), Held.events)
  })

  const hold = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId) {
    const client = makeClient()
    const ended = yield* responses.wait(caller, id)
    const shown = Effect.map(
      responses.show(client, caller, id),
      ({ json }) => slicesOf(OpaqueJson.toBytes(write(json)))
    )
    return yield* open(client, Stream.fromEffect(Effect.as(ended, Stream.unwrap(shown))), Held.json)
  })

  return { hold, stream }
})

const makeHandlers = Effect.gen(function*() {
  const tasks = yield* Tasks
  const responses = yield* Responses.make
  const create = yield* Create.make(responses)
  const { read } = yield* BodyReader
  const changes = yield* Changes

  const { hold, stream } = yield* makeStreams(responses)
  const send = yield* makeSend
  const show = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId) {
    const client = makeClient()
    return send(client, write((yield* responses.show(client, caller, id)).json))
  })

  /** The scope ends here, because large bodies of others wait for its permits while the answer is held. */
  const submit = Effect.fnUntraced(function*(caller: Caller) {
    const request = yield* HttpServerRequest.HttpServerRequest
    const { body, key } = yield* read(createResponse, request)
    if ("problem" in body) return yield* invalid(body.problem.param, body.problem.message, body.problem.code)
    // Before the request has an effect.
    if (body.isStream || !body.isBackground) yield* changes.checkLimit(caller.principal.sub)
    const { isBackground, isStream } = body
    return { ...(yield* create({ caller, request: body, key })), isBackground, isStream }
  }, Effect.scoped)

  const post: Handler = Effect.fnUntraced(function*(caller) {
    const { id, isBackground, isStream, snapshot } = yield* submit(caller)
    if (isStream) return yield* stream(caller, id, -1)
    if (!isBackground) return yield* hold(caller, id)
    return snapshot === undefined ? yield* show(caller, id) : json(Response.responseOf(snapshot, []).json)
  })

  const get: Handler = Effect.fnUntraced(function*(caller, [given]) {
    const id = yield* legOf(given)
    const { after, isStream } = yield* Query.retrieve
    return yield* isStream ? stream(caller, id, after) : show(caller, id)
  })

  const cancel: Handler = Effect.fnUntraced(function*(caller, [given]) {
    const id = yield* legOf(given)
    const { snapshot } = yield* responses.find(caller.principal, id)
    if (snapshot.status === "answered") return yield* notCancellable("completed")
    if (snapshot.status !== "canceled") {
      yield* tasks.withdraw(yield* tasks.getHead(caller.principal, id.uuid), null)
    }
    return yield* show(caller, id)
  })

  const inputItems: Handler = Effect.fnUntraced(function*(caller, [given]) {
    const id = yield* legOf(given)
    const query = yield* Query.inputItems
    const { found, snapshot } = yield* responses.find(caller.principal, id)
    const { input } = snapshot.kept
    if (found.leg !== id.leg || !(input instanceof RawJson)) return yield* inputNotKept
    return json(InputItems.page(InputItems.listed(input, id), query))
  })

  return { post, get, cancel, inputItems }
})

const describeFile = (file: Ids.StoredFile) => ({
  id: Ids.fileId(file),
  object: "file",
  bytes: file.bytes,
  created_at: file.created_at,
  filename: file.name,
  purpose: "user_data",
  status: "processed"
})

const fileOf = (id = "") => {
  const file = Ids.parseFile(id)
  return file === undefined ? Effect.fail(fileNotFound(id.slice(0, 64))) : Effect.succeed(file)
}

/** The path of a URL below the storage; undefined when it could lead elsewhere: the client chooses it with the id. */
const pathInStorage = (path: string) => {
  const segments = path.split("/")
  const isPlain = segments.every((segment) => segment !== "" && segment !== "." && segment !== "..")
  if (!isPlain || !path.isWellFormed() || /^[a-z][a-z0-9+.-]*:|\\/i.test(path)) return undefined
  return segments.map(encodeURIComponent).join("/")
}

/** Nothing of a file is stored here: its id contains what the API returns of it. */
const makeFiles = Effect.gen(function*() {
  const { upload } = yield* Uploads
  const backend = yield* AssistantBackend

  const post: Handler = Effect.fnUntraced(function*(caller) {
    const { bytes, file } = yield* upload(caller, yield* HttpServerRequest.HttpServerRequest)
    const { id, mime_type, name, provider_data: { path } } = file
    const created_at = unixSeconds(yield* now)
    return json(describeFile({ id, name, mime_type, path, bytes, created_at }))
  })
  const get: Handler = Effect.fnUntraced(function*(caller, [id = "", part]) {
    const file = yield* fileOf(id)
    if (part === undefined) return json(describeFile(file))
    if (part !== "content") return yield* fileNotFound(part.slice(0, 64))
    const path = pathInStorage(file.path)
    if (path === undefined) return yield* fileNotFound(id.slice(0, 64))
    return HttpServerResponse.redirect(`${yield* backend.storageBase(caller.token)}/${path}`)
  })
  return { post, get }
})

const describeModel = (id: string) => ({ id, object: "model", created: 0, owned_by: "async-task-service" })

const makeModels = Effect.map(Models.make, (models) => {
  const list: Handler = Effect.fnUntraced(function*(caller) {
    return json({ object: "list", data: (yield* models.list(caller)).map(describeModel) })
  })
  const get: Handler = Effect.fnUntraced(function*(caller, [name = ""]) {
    yield* models.find(caller, name)
    return json(describeModel(name))
  })
  return { list, get }
})

/** Fails when a path segment is not valid percent encoding; the router has refused such a path before. */
const partsOf = (request: HttpServerRequest.HttpServerRequest) =>
  pathOf(request).split("/").slice(3).map(decodeURIComponent)

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const authenticate = yield* makeAuthenticate
    const responses = yield* makeHandlers
    const files = yield* makeFiles
    const models = yield* makeModels

    const guarded = (handler: Handler) => (request: HttpServerRequest.HttpServerRequest) =>
      catchFailure(
        authenticate(
          Effect.flatMap(CurrentCaller, (caller) => handler(caller, partsOf(request))),
          Redacted.make(bearerOf(request))
        )
      )
    const refuse: Handler = Effect.fnUntraced(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      return yield* unsupported(request.method, pathOf(request).slice(0, 128))
    })

    yield* router.add("POST", "/v1/responses", guarded(responses.post))
    yield* router.add("GET", "/v1/responses/:id", guarded(responses.get))
    yield* router.add("POST", "/v1/responses/:id/cancel", guarded(responses.cancel))
    yield* router.add("GET", "/v1/responses/:id/input_items", guarded(responses.inputItems))
    yield* router.add("POST", "/v1/files", guarded(files.post))
    // The router refuses a parameter of more than 100 characters; ids of files are longer.
    yield* router.add("GET", "/v1/files/*", guarded(files.get))
    yield* router.add("GET", "/v1/models", guarded(models.list))
    yield* router.add("GET", "/v1/models/:id", guarded(models.get))
    yield* router.add("*", "/v1/*", guarded(refuse))
  })
)
