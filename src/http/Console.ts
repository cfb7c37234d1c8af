/** The web page at `/console`, its assets and its configuration. The policy allows no other origin and no text as HTML. */
import { ByteSize, Duration, Effect, Fiber, Option, Schema } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { isAtMostCharacters } from "../domain/Fields.ts"
import * as FileFormat from "../domain/FileFormat.ts"
import * as Limits from "../domain/Limits.ts"
import { Settings } from "../services/timing/Settings.ts"
import { Audience } from "./Audience.ts"
import { type Asset, ConsoleAssets, type ConsoleAudience, ConsoleAudiences } from "./ConsoleAssets.ts"
import { DevelopmentToken, isOfThisMachine } from "./DevelopmentToken.ts"
import { pathOf } from "./Routes.ts"

const headers = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "permissions-policy": "camera=(), microphone=(), geolocation=()",
  "cache-control": "no-cache"
}

const prefix = "/console"
const page = "index.html"

const json = (body: unknown, status = 200) => HttpServerResponse.jsonUnsafe(body, { status, headers })

/** The response middleware describes it. */
const notFound = HttpServerResponse.empty({ status: 404, headers })

const notBuilt = json({ message: "The console is not built: npm run build" }, 503)

const send = (name: string, request: HttpServerRequest.HttpServerRequest) => ({ bytes, contentType, gzip }: Asset) => {
  const isZipped = /\bgzip\b/.test(request.headers["accept-encoding"] ?? "")
  return HttpServerResponse.uint8Array(isZipped ? gzip : bytes, {
    contentType,
    headers: {
      ...headers,
      vary: "accept-encoding",
      ...(isZipped ? { "content-encoding": "gzip" } : {}),
      ...(name === page ? {} : { "cache-control": "public, max-age=31536000, immutable" })
    }
  })
}

/** A path without a dot is a route of the page itself. */
const nameOf = (request: HttpServerRequest.HttpServerRequest) => {
  const path = pathOf(request).slice(prefix.length + 1)
  return path.includes(".") ? path : page
}

/** The audiences that the listener of the current request can serve: the calls of operators are internal. */
const audiencesOf = (configured: ReadonlyArray<ConsoleAudience>) => {
  const listener = Fiber.getCurrent()?.getRef(Audience) ?? "all"
  return configured.filter((audience) => listener === "all" || (audience === "operators") === (listener === "internal"))
}

const DevLogin = Schema.Struct({ sub: Schema.NonEmptyString.check(isAtMostCharacters(255)) })

const login = (
  mint: NonNullable<typeof DevelopmentToken.Service>,
  request: HttpServerRequest.HttpServerRequest
) =>
  isOfThisMachine(request)
    ? HttpServerRequest.schemaBodyJson(DevLogin).pipe(
      Effect.flatMap(({ sub }) => mint(sub)),
      Effect.map((token) => json({ token })),
      Effect.orElseSucceed(() => json({ message: "sub: Expected a name", errors: { sub: ["Expected a name"] } }, 422)),
      Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.kibibytes(4)),
      Effect.timeoutOrElse({
        duration: Duration.seconds(5),
        orElse: () => Effect.succeed(json({ message: "The request did not arrive in time." }, 408))
      })
    )
    : Effect.succeed(notFound)

/** The routes; `version` is that of the service. */
export const layer = (version: string) =>
  HttpRouter.use((router) =>
    Effect.gen(function*() {
      const configured = yield* ConsoleAudiences
      if (configured.length === 0) return
      const assets = yield* ConsoleAssets
      const mint = yield* DevelopmentToken
      const { maxActiveTasks } = yield* Settings
      const serve = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
        if (audiencesOf(configured).length === 0) return notFound
        const name = nameOf(request)
        return yield* assets.get(name).pipe(
          Effect.map(Option.match({ onNone: () => notFound, onSome: send(name, request) })),
          Effect.catchTag("ConsoleNotBuilt", () => Effect.succeed(notBuilt))
        )
      })
      const limits = { max_active_tasks: maxActiveTasks, file_bytes: Limits.fileBytes, formats: FileFormat.extensions }
      const describe = (request: HttpServerRequest.HttpServerRequest) =>
        json({
          version,
          audiences: audiencesOf(configured),
          dev_login: mint !== undefined && isOfThisMachine(request),
          limits
        })
      yield* router.add("GET", `${prefix}/*`, serve)
      yield* router.add("GET", `${prefix}/config.json`, (request) => Effect.sync(() => describe(request)))
      if (mint !== undefined) yield* router.add("POST", `${prefix}/dev-login`, (request) => login(mint, request))
    })
  )
