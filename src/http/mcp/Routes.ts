/** The routes of the façade: `POST /mcp`, and where its clients learn of the authorization server. */
import { Duration, Effect, Redacted, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { fromJsonText } from "../../domain/json/OpaqueJson.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import * as Limits from "../../domain/Limits.ts"
import type { Caller } from "../../domain/Principal.ts"
import { Unauthorized } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import * as Defects from "../Defects.ts"
import { DocumentedVersion } from "../Docs.ts"
import { type Id, json } from "../facades/JsonRpc.ts"
import { bearerOf, makeAuthenticate } from "../handlers/Authorization.ts"
import { BodyReader } from "../handlers/body/BodyReader.ts"
import type { BodyKind } from "../handlers/body/JsonBody.ts"
import { failed } from "./Answers.ts"
import * as Errors from "./Errors.ts"
import * as Follow from "./Follow.ts"
import * as Message from "./Message.ts"
import { McpSettings } from "./Settings.ts"
import * as TaskExtension from "./TaskExtension.ts"
import { ToolTable } from "./Tools.ts"
import * as Versions from "./Versions.ts"

const instructions =
  "Assistants work in the background. run_assistant starts a task and waits a while for its result. While the task is pending or "
  + "processing, call get_task, also much later: the task outlives the call. A task that is interrupted asks you to run tools: answer all "
  + "of its pending_tool_calls by answer_task. cancel_task ends a task that is no longer needed."

/** The response is the same for every request of a token: clients may keep it for `ttlMs` milliseconds. */
const cached = { ttlMs: Duration.toMillis(Duration.hours(1)), cacheScope: "private" }

const kind: BodyKind<Message.Message | Message.Problem> = {
  schema: Schema.Unknown,
  shape: Message.shape,
  maxBytes: Limits.jsonBodyBytes,
  whenEmpty: undefined,
  decode: (found, bytes) => Effect.sync(() => Message.read(found, bytes))
}

/** An error with another status than 200 is JSON, whatever the client accepts. */
const refuse = (
  { code, data, message, status }: Errors.Refused,
  id: Id | null,
  { headers = {}, isEventsOnly = false }: {
    readonly headers?: Readonly<Record<string, string>>
    readonly isEventsOnly?: boolean
  } = {}
) => {
  const body = { jsonrpc: "2.0", id, error: { code, message, data } }
  return status === 200 ? Follow.send(body, isEventsOnly) : json(body, status, headers)
}

/** Methods that need no task. */
const makeStatic = Effect.gen(function*() {
  const tools = yield* ToolTable
  const serverInfo = { name: "async-task-service", version: yield* DocumentedVersion }
  const listed = { tools: [...tools.values()].map((tool) => tool.listed) }
  const capabilities = { tools: {}, extensions: { [Message.tasksExtension]: {} } }
  return (
    isCurrent: boolean,
    { method, offered }: Message.Message
  ): { readonly [field: string]: Writable } | undefined => {
    if (method === "tools/list") return isCurrent ? { ...listed, ...cached } : listed
    if (isCurrent) {
      return method !== "server/discover" ? undefined : {
        supportedVersions: Versions.supported,
        capabilities,
        instructions,
        ...cached,
        _meta: { [Message.metaKey("serverInfo")]: serverInfo }
      }
    }
    if (method === "initialize") {
      return { protocolVersion: Versions.negotiated(offered), serverInfo, capabilities: { tools: {} }, instructions }
    }
    return method === "ping" ? {} : undefined
  }
})

/** Returns a function that answers one message. */
const makeAnswer = Effect.gen(function*() {
  const tools = yield* ToolTable
  const follow = yield* Follow.make
  const answerStatic = yield* makeStatic
  const extension = yield* TaskExtension.make

  const callTool = Effect.fnUntraced(
    function*(request: Follow.Request, { arguments: args, hasTasks, name = "" }: Message.Message) {
      const tool = tools.get(name)
      if (tool === undefined) return yield* Errors.invalidParams(`There is no tool ${name.slice(0, 64)}.`, 200)
      let onLeft: Effect.Effect<void> = Effect.void
      const respond = Effect.gen(function*() {
        const outcome = yield* tool.call(request.caller, args)
        if (outcome._tag === "Result") return Follow.respond(request, outcome.result)
        if (outcome.isRun && hasTasks && request.isCurrent) {
          return Follow.respond(request, yield* extension.created(request.caller, outcome.uuid))
        }
        const followed = yield* follow(request, outcome)
        onLeft = followed.onLeft
        return followed.response
      })
      return yield* respond.pipe(
        Effect.catch((failure) => Effect.succeed(Follow.respond(request, failed(Errors.messageOf(failure))))),
        Effect.uninterruptible,
        // The client left before the answer began.
        Effect.onInterrupt(() => onLeft)
      )
    }
  )

  return Effect.fnUntraced(
    function*(
      caller: Caller,
      id: Id,
      message: Message.Message,
      { headers }: HttpServerRequest.HttpServerRequest
    ) {
      const isCurrent = yield* Versions.isCurrent(message, headers)
      const hasEvents = Message.accepts(headers["accept"], "text/event-stream")
      const request: Follow.Request = {
        id,
        caller,
        isCurrent,
        // Progress needs events.
        progressToken: hasEvents ? message.progressToken : undefined,
        isEventsOnly: Message.acceptsOnlyEvents(headers["accept"])
      }
      const result = answerStatic(isCurrent, message)
      if (result !== undefined) return Follow.respond(request, result)
      if (message.method === "tools/call") return yield* callTool(request, message)
      const answered = isCurrent ? extension.answer(caller, message) : undefined
      if (answered !== undefined) return Follow.respond(request, yield* answered)
      return yield* Errors.noMethod(message.method, isCurrent ? 404 : 200)
    }
  )
})

/** Reads a message and answers it. Large bodies of others wait until the scope closes, before the answer is sent. */
const makePost = Effect.gen(function*() {
  const { attempt } = yield* BodyReader
  const answer = yield* makeAnswer
  return Effect.fnUntraced(function*(caller: Caller, request: HttpServerRequest.HttpServerRequest) {
    const { outcome } = yield* attempt(kind, request)
    const message = yield* Effect.fromResult(outcome)
    if ("problem" in message) return refuse(Errors.notRequest(message.problem), null)
    const { id } = message
    if (id === undefined) return HttpServerResponse.empty({ status: 202 })
    const isEventsOnly = Message.acceptsOnlyEvents(request.headers["accept"])
    return yield* answer(caller, id, message, request).pipe(
      Defects.failWith(Errors.internalError),
      Effect.catchTag("McpRefused", (refused) => Effect.succeed(refuse(refused, id, { isEventsOnly })))
    )
  }, Effect.scoped)
})

const Claims = fromJsonText(
  Schema.Struct({ aud: Schema.optional(Schema.Union([Schema.String, Schema.Array(Schema.Unknown)])) })
)

/** True if a token, which has been verified, is for an audience. */
const isFor = (token: string, audience: string): boolean => {
  const claims = Result.getOrElse(Base64Url.decodeString(token.split(".")[1] ?? ""), () => "{}")
  return [Schema.decodeSync(Claims)(claims).aud].flat().includes(audience)
}

const notAllowed = HttpServerResponse.empty({ status: 405, headers: { allow: "POST" } })

const metadataPath = "/.well-known/oauth-protected-resource"

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const { audience, corsOrigins, issuer, publicUrl } = yield* McpSettings
    const authenticate = yield* makeAuthenticate
    const post = yield* makePost

    const challenge = issuer === undefined ? "Bearer" : `Bearer resource_metadata="${publicUrl}${metadataPath}/mcp"`
    const origins = corsOrigins === "*" ? undefined : new Set([new URL(publicUrl).origin, ...corsOrigins])
    const wrongAudience = new Unauthorized({ message: `The token is not for the audience ${audience ?? ""}.` })

    const handle = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const caller = yield* CurrentCaller
      if (audience !== undefined && !isFor(Redacted.value(caller.token), audience)) return yield* wrongAudience
      return yield* post(caller, request)
    })

    yield* router.add("*", "/mcp", (request) => {
      if (request.method !== "POST") return Effect.succeed(notAllowed)
      const { origin } = request.headers
      if (origin !== undefined && origins?.has(origin) === false) {
        return Effect.succeed(refuse(Errors.wrongOrigin, null))
      }
      return Effect.catch(authenticate(handle(request), Redacted.make(bearerOf(request))), (failure) => {
        const refused = Errors.ofRequest(failure)
        return Effect.succeed(
          refuse(refused, null, refused.status === 401 ? { headers: { "www-authenticate": challenge } } : {})
        )
      })
    })
    if (issuer === undefined) return
    const metadata = json({ resource: `${publicUrl}/mcp`, authorization_servers: [issuer] })
    yield* router.add("GET", `${metadataPath}/mcp`, metadata)
    yield* router.add("GET", metadataPath, metadata)
  })
)
