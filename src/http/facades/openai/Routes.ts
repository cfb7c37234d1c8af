/** The routes of the OpenAI façade: `/v1/responses` and `/v1/models`. Off unless `FACADES` names it. */
import { Duration, Effect, Redacted, type Scope, Stream } from "effect"
import { Sse } from "effect/encoding"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import type { Caller } from "../../../domain/Principal.ts"
import { TaskNotFound } from "../../../domain/TaskErrors.ts"
import { now, unixSeconds } from "../../../domain/Timestamp.ts"
import { AssistantBackend } from "../../../services/files/AssistantBackend.ts"
import { WaitingRequests } from "../../../services/store/WaitingRequests.ts"
import { Tasks } from "../../../services/Tasks.ts"
import { CurrentCaller } from "../../contract/Middleware.ts"
import { bearerOf, makeAuthenticate } from "../../handlers/Authorization.ts"
import { BodyReader } from "../../handlers/body/BodyReader.ts"
import { CurrentToken } from "../../handlers/CurrentToken.ts"
import { Uploads } from "../../handlers/Uploads.ts"
import { pathOf } from "../../Routes.ts"
import { Facades, modelOf } from "../Facades.ts"
import * as Create from "./Create.ts"
import {
  catchFailure,
  type Failure,
  fileNotFound,
  inputNotKept,
  invalid,
  modelNotFound,
  notCancellable,
  unsupported
} from "./Errors.ts"
import * as Events from "./Events.ts"
import * as Ids from "./Ids.ts"
import * as InputItems from "./InputItems.ts"
import * as Query from "./Query.ts"
import * as Response from "./Response.ts"
import * as Responses from "./Responses.ts"

const keepAliveInterval = Duration.seconds(15)
const keepAlive = (text: string) => Stream.map(Stream.drop(Stream.tick(keepAliveInterval), 1), () => text)

const json = (body: unknown) => HttpServerResponse.jsonUnsafe(body)

const write = (event: Events.ResponseEvent) =>
  event === Events.done
    ? "data: [DONE]\n\n"
    : Sse.encoder.write({ _tag: "Event", id: undefined, event: event.type, data: JSON.stringify(event) })

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
const makeStreams = (responses: Responses.Responses) => {
  /** Answers with the events above `after`. A stream must not outlive the token that opened it. */
  const stream = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId, after: number) {
    const { ended } = yield* CurrentToken
    const events = yield* responses.events(caller, id, after)
    const text = Stream.map(events, write).pipe(
      Stream.merge(keepAlive(": keep-alive\n\n"), { haltStrategy: "left" }),
      Stream.interruptWhen(ended),
      Stream.encodeText
    )
    return HttpServerResponse.stream(text, {
      contentType: "text/event-stream",
      headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
    })
  })

  /** Sends the head at once and blanks while the client waits, so that no timeout of a proxy or client ends the request. */
  const hold = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId) {
    const { ended } = yield* CurrentToken
    const ending = yield* responses.wait(caller, id)
    const text = Stream.fromEffect(Effect.map(ending, (response) => JSON.stringify(response))).pipe(
      Stream.merge(keepAlive(" "), { haltStrategy: "left" }),
      Stream.interruptWhen(ended),
      Stream.encodeText
    )
    return HttpServerResponse.stream(text, { contentType: "application/json" })
  })

  return { hold, stream }
}

const makeHandlers = Effect.gen(function*() {
  const tasks = yield* Tasks
  const responses = yield* Responses.make
  const create = yield* Create.make(responses)
  const { read } = yield* BodyReader
  const waiting = yield* WaitingRequests

  const { hold, stream } = makeStreams(responses)

  /** The scope ends here, because large bodies of others wait for its permits while the answer is held. */
  const submit = Effect.fnUntraced(function*(caller: Caller) {
    const request = yield* HttpServerRequest.HttpServerRequest
    const { body, claim } = yield* read("createResponse", request)
    if ("problem" in body) return yield* invalid(body.problem.param, body.problem.message, body.problem.code)
    // Before the request has an effect.
    if (body.isStream || !body.isBackground) yield* waiting.checkLimit(caller.principal.sub)
    const { isBackground, isStream } = body
    return { ...(yield* create({ caller, request: body, claim })), isBackground, isStream }
  }, Effect.scoped)

  const post: Handler = Effect.fnUntraced(function*(caller) {
    const { id, isBackground, isStream, snapshot } = yield* submit(caller)
    if (isStream) return yield* stream(caller, id, -1)
    if (!isBackground) return yield* hold(caller, id)
    return json(snapshot === undefined ? yield* responses.get(caller, id) : Response.responseOf(snapshot, []))
  })

  const get: Handler = Effect.fnUntraced(function*(caller, [given]) {
    const id = yield* legOf(given)
    const { after, isStream } = yield* Query.retrieve
    return isStream ? yield* stream(caller, id, after) : json(yield* responses.get(caller, id))
  })

  const cancel: Handler = Effect.fnUntraced(function*(caller, [given]) {
    const id = yield* legOf(given)
    const { snapshot } = yield* responses.find(caller.principal, id)
    if (snapshot.status === "answered") return yield* notCancellable("completed")
    if (snapshot.status !== "canceled") {
      yield* tasks.withdraw(yield* tasks.getHead(caller.principal, id.uuid), null)
    }
    return json(yield* responses.get(caller, id))
  })

  const inputItems: Handler = Effect.fnUntraced(function*(caller, [given]) {
    const id = yield* legOf(given)
    const query = yield* Query.inputItems
    const { found, snapshot } = yield* responses.find(caller.principal, id)
    if (found.leg !== id.leg || snapshot.kept.input === undefined) return yield* inputNotKept
    return json(InputItems.page(InputItems.listed(snapshot.kept.input, id), query))
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
    // The path is the client's: a URL has no line breaks, and only characters that a header may have.
    const link = URL.parse(`${yield* backend.storageBase(caller.token)}/${file.path}`)
    return link === null ? yield* fileNotFound(id.slice(0, 64)) : HttpServerResponse.redirect(link)
  })
  return { post, get }
})

const describeModel = (id: string) => ({ id, object: "model", created: 0, owned_by: "async-task-service" })

const makeModels = Effect.map(Facades, ({ models }) => {
  const list: Handler = () => Effect.succeed(json({ object: "list", data: [...models.keys()].map(describeModel) }))
  const get: Handler = Effect.fnUntraced(function*(_, [name = ""]) {
    if (modelOf(models, name) === undefined) return yield* modelNotFound(name.slice(0, 64))
    return json(describeModel(name))
  })
  return { list, get }
})

/** Fails when a path segment is not valid percent encoding; the router has refused such a path before. */
const partsOf = (request: HttpServerRequest.HttpServerRequest) =>
  pathOf(request).split("/").slice(3).map(decodeURIComponent)

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const { openai } = yield* Facades
    if (!openai) return
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
