/** The routes of the façade: the cards of the agents, and `POST /a2a`. */
import { Effect, Redacted, Schema } from "effect"
import { Digest } from "effect/crypto"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import type { RawJson } from "../../domain/json/RawJson.ts"
import { captured, type Found, object, raw, small } from "../../domain/json/Shape.ts"
import { Kind } from "../../domain/json/tables.ts"
import * as Limits from "../../domain/Limits.ts"
import type { Caller } from "../../domain/Principal.ts"
import { codeOfStatus } from "../contract/ErrorCodes.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { isOfThisMachine } from "../DevelopmentToken.ts"
import { DocumentedVersion } from "../Docs.ts"
import { encode, type Id, idIn, isPresent, json, rawIn, wrongId } from "../facades/JsonRpc.ts"
import { FacadeSettings, modelOf } from "../facades/Settings.ts"
import { bearerOf, makeAuthenticate } from "../handlers/Authorization.ts"
import { BodyReader } from "../handlers/body/BodyReader.ts"
import type { BodyKind } from "../handlers/body/JsonBody.ts"
import * as ETags from "../handlers/ETags.ts"
import { pathOf } from "../Routes.ts"
import { errorOf } from "./Answers.ts"
import { cacheControl, cardOf } from "./Card.ts"
import * as Dialects from "./Dialects.ts"
import { type Failure, headersOf, refused, toRefused, withoutDefects } from "./Errors.ts"
import * as Methods from "./Methods.ts"
import { A2aSettings } from "./Settings.ts"

type Request = HttpServerRequest.HttpServerRequest

interface Message {
  readonly id: Id | null
  readonly method: string
  readonly params: RawJson | undefined
  readonly problem: string | undefined
}

const read = (root: Found, bytes: Uint8Array): Message => {
  const [given, method, params] = [root.field("id"), root.field("method")?.text, root.field("params")]
  const id = idIn(given, bytes) ?? null
  const problem = root.kind !== Kind.object || root.field("jsonrpc")?.text !== "2.0" || method === undefined
    ? "Expected one request of JSON-RPC 2.0."
    : isPresent(given) && id === null
    ? wrongId
    : isPresent(params) && params.kind !== Kind.object
    ? "params must be an object."
    : undefined
  return { id, method: method ?? "", params: rawIn(params, bytes), problem }
}

const kind: BodyKind<Message> = {
  schema: Schema.Unknown,
  shape: object({ jsonrpc: captured, id: small, method: captured, params: raw }),
  maxBytes: Limits.jsonBodyBytes,
  whenEmpty: undefined,
  decode: (found, bytes) => Effect.sync(() => read(found, bytes))
}

/** The version of a request by its major and minor number; a request without one has 0.3. */
const versionOf = ({ headers, url }: Request): string => {
  const query = new URLSearchParams(url.split("?").slice(1).join("?"))
  const given = headers["a2a-version"] ?? query.get("A2A-Version") ?? ""
  return given.trim() === "" ? "0.3" : /^(\d+\.\d+)(\.\d+)*$/.exec(given.trim())?.[1] ?? given.slice(0, 64)
}

const askedBy = ({ headers }: Request) =>
  new Set(
    [headers["a2a-extensions"], headers["x-a2a-extensions"]].flatMap((list) =>
      (list ?? "").split(",").map((uri) => uri.trim())
    )
  )

/** The refusal of a request. */
const refuse = (id: Id | null, isLegacy: boolean, failure: Failure) => {
  const refusal = toRefused(failure)
  return json(errorOf({ id, isLegacy }, refusal), refusal.status, headersOf(refusal))
}

/** Returns a function that answers one message. */
const makePost = Effect.gen(function*() {
  const { attempt } = yield* BodyReader
  const { v03, v1 } = yield* Methods.make

  return Effect.fnUntraced(function*(caller: Caller, model: string, request: Request) {
    const version = versionOf(request)
    const isLegacy = version === "0.3"
    let id: Id | null = null
    const begin = Effect.gen(function*() {
      const { outcome } = yield* attempt(kind, request)
      const message = yield* Effect.fromResult(outcome)
      ;({ id } = message)
      if (message.problem !== undefined) return yield* refused("INVALID_REQUEST", message.problem)
      if (!isLegacy && version !== "1.0") {
        return yield* refused("VERSION_NOT_SUPPORTED", "Expected the version 1.0 or 0.3 in A2A-Version.")
      }
      const method = (isLegacy ? v03 : v1).get(message.method)
      if (method === undefined) {
        const name = message.method.slice(0, 64)
        return yield* refused("METHOD_NOT_FOUND", `There is no method ${name} in version ${version}.`)
      }
      const dialect = isLegacy ? Dialects.v03 : Dialects.v1
      return yield* method({ id, caller, model, dialect, isLegacy, asked: askedBy(request) }, message.params)
    })
    // Large bodies of others wait until the scope closes, before the answer is sent.
    return yield* Effect.flatten(Effect.scoped(begin)).pipe(
      withoutDefects,
      Effect.catch((failure) => Effect.succeed(refuse(id, isLegacy, failure)))
    )
  })
})

const cardPath = ".well-known/agent-card.json"

const notAllowed = (allow: string) => HttpServerResponse.empty({ status: 405, headers: { allow } })
const notFound = HttpServerResponse.jsonUnsafe({ message: "There is no such agent.", code: codeOfStatus(404) }, {
  status: 404
})

/** Returns a function that answers with the card of a model, which needs no token. */
const makeCards = Effect.gen(function*() {
  const digest = yield* Digest.Digest
  const version = yield* DocumentedVersion
  return Effect.fnUntraced(function*(model: string, url: string, { headers }: Request) {
    const card = encode(cardOf(model, url, version))
    const etag = `"${(yield* Effect.orDie(digest.digestHex(Digest.sha256, card))).slice(0, 32)}"`
    const more = { etag, "cache-control": cacheControl, vary: "host" }
    return ETags.names(headers["if-none-match"] ?? "", etag)
      ? HttpServerResponse.empty({ status: 304, headers: more })
      : HttpServerResponse.uint8Array(card, { headers: more, contentType: "application/json" })
  })
})

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const { cardsFollowHost, publicUrl } = yield* A2aSettings
    const { models } = yield* FacadeSettings
    const authenticate = yield* makeAuthenticate
    const post = yield* makePost
    const card = yield* makeCards
    const [first] = models.keys()
    /** The address of the agents. A `Host` that names another machine is of no account: anyone can write one. */
    const addressFor = (request: Request) =>
      `${cardsFollowHost && isOfThisMachine(request) ? `http://${request.headers["host"]}` : publicUrl}/a2a`

    const postTo = (model: string, request: Request) =>
      authenticate(
        Effect.flatMap(CurrentCaller, (caller) => post(caller, model, request)),
        Redacted.make(bearerOf(request))
      ).pipe(Effect.catch((failure) => Effect.succeed(refuse(null, versionOf(request) === "0.3", failure))))

    /** The first model, by which clients find this service. */
    const plain = (request: Request) =>
      request.method !== "POST"
        ? Effect.succeed(notAllowed("POST"))
        : first === undefined
        ? Effect.succeed(notFound)
        : postTo(first, request)
    const cardAt = (model: string, address: string, request: Request) =>
      request.method === "GET" || request.method === "HEAD"
        ? card(model, address, request)
        : Effect.succeed(notAllowed("GET, HEAD"))
    const plainCard = (request: Request) =>
      first === undefined ? Effect.succeed(notFound) : cardAt(first, addressFor(request), request)

    /** Another model, or its card. */
    const ofModel = (request: Request) => {
      const [segment = "", ...rest] = pathOf(request).split("/").slice(2)
      const path = rest.join("/")
      if (segment === "" && path === "") return plain(request)
      if (`${segment}/${path}` === cardPath) return plainCard(request)
      // The router has refused a path that is not valid percent encoding.
      const model = decodeURIComponent(segment)
      if (path === "") return request.method === "POST" ? postTo(model, request) : Effect.succeed(notAllowed("POST"))
      if (path !== cardPath || modelOf(models, model) === undefined) return Effect.succeed(notFound)
      return cardAt(model, `${addressFor(request)}/${encodeURIComponent(model)}`, request)
    }

    yield* router.add("GET", `/${cardPath}`, plainCard)
    yield* router.add("*", "/a2a/*", ofModel)
  })
)
