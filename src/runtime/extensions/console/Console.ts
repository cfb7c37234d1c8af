/** The web page at `/console`, its assets and its configuration. The policy allows no other origin and no text as HTML. */
import { ByteSize, Duration, Effect, Fiber, Layer, Option, Redacted, Schema } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { isAtMostCharacters } from "../../../domain/Fields.ts"
import * as FileFormat from "../../../domain/FileFormat.ts"
import * as Limits from "../../../domain/Limits.ts"
import { Audience } from "../../../http/Audience.ts"
import { codeOfStatus } from "../../../http/contract/ErrorCodes.ts"
import { Unauthorized } from "../../../http/contract/Errors.ts"
import { CurrentCaller } from "../../../http/contract/Middleware.ts"
import { DevelopmentToken, isOfThisMachine } from "../../../http/DevelopmentToken.ts"
import { Extensions } from "../../../http/ExtensionRoutes.ts"
import { bearerOf, makeAuthenticate } from "../../../http/handlers/Authorization.ts"
import { pathOf } from "../../../http/Routes.ts"
import { AssistantBackend } from "../../../services/files/AssistantBackend.ts"
import { commaList, parsed, setting } from "../../../services/settings/Setting.ts"
import { Settings } from "../../../services/settings/Settings.ts"
import type { Extension } from "../../Extension.ts"
import { version } from "../../Version.ts"
import * as ConsoleAssets from "./ConsoleAssets.ts"
import type { Asset } from "./ConsoleBundle.ts"

const policyOf = (imageOrigins: ReadonlyArray<string>) =>
  `default-src 'none'; script-src 'self'; style-src 'self'; ${
    ["img-src 'self' data:", ...imageOrigins].join(" ")
  }; media-src 'self'; `
  + "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const headers = {
  "content-security-policy": policyOf([]),
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

const notBuilt = json({ message: "The console is not built: npm run build", code: codeOfStatus(503) }, 503)

const send =
  (name: string, request: HttpServerRequest.HttpServerRequest, policy: string) =>
  ({ bytes, contentType, gzip }: Asset) => {
    const isZipped = /\bgzip\b/.test(request.headers["accept-encoding"] ?? "")
    return HttpServerResponse.uint8Array(isZipped ? gzip : bytes, {
      contentType,
      headers: {
        ...headers,
        "content-security-policy": policy,
        vary: "accept-encoding",
        ...(isZipped ? { "content-encoding": "gzip" } : {}),
        ...(name === page ? {} : { "cache-control": "public, max-age=31536000, immutable" })
      }
    })
  }

/** A path without a dot is a route of the page itself, and so is that of a user, whose name may have one. */
const nameOf = (request: HttpServerRequest.HttpServerRequest) => {
  const path = pathOf(request).slice(prefix.length + 1)
  return path.includes(".") && !path.startsWith("ops/users/") ? path : page
}

/** The assistants that the backend lists for the user; none when it cannot be asked. */
const makeAssistants = Effect.gen(function*() {
  const authenticate = yield* makeAuthenticate
  const backend = yield* AssistantBackend
  const list = Effect.gen(function*() {
    const { token } = yield* CurrentCaller
    return json({ data: yield* Effect.orElseSucceed(backend.assistants(token), () => []) })
  })
  return (request: HttpServerRequest.HttpServerRequest) =>
    Effect.catch(
      authenticate(list, Redacted.make(bearerOf(request))),
      (refused) =>
        Effect.succeed(
          json({ message: refused.message, code: refused.code }, refused instanceof Unauthorized ? 401 : 503)
        )
    )
})

const allAudiences = ["users", "operators"] as const
type ConsoleAudience = typeof allAudiences[number]

/** The audiences that the listener of the current request can serve: the calls of operators are internal. */
const audiencesNow = (configured: ReadonlyArray<ConsoleAudience>) => {
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
      Effect.orElseSucceed(() =>
        json({ message: "sub: Expected a name", code: codeOfStatus(422), errors: { sub: ["Expected a name"] } }, 422)
      ),
      Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.kibibytes(4)),
      Effect.timeoutOrElse({
        duration: Duration.seconds(5),
        orElse: () =>
          Effect.succeed(json({ message: "The request did not arrive in time.", code: codeOfStatus(408) }, 408))
      })
    )
    : Effect.succeed(notFound)

const layer = (wanted: ReadonlyArray<ConsoleAudience>, imageOrigins: ReadonlyArray<string>) =>
  HttpRouter.use((router) =>
    Effect.gen(function*() {
      const extensions = yield* Extensions
      const names = extensions.flatMap(({ screens }) => screens ?? [])
      const hasOperators = extensions.some(({ operators }) => operators === true)
      const configured = wanted.filter((audience) => hasOperators || audience !== "operators")
      const policy = policyOf(imageOrigins)
      const find = yield* ConsoleAssets.current
      const mint = yield* DevelopmentToken
      const { maxActiveTasks } = yield* Settings
      const serve = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
        if (audiencesNow(configured).length === 0) return notFound
        const name = nameOf(request)
        return yield* find(name).pipe(
          Effect.map(Option.match({ onNone: () => notFound, onSome: send(name, request, policy) })),
          Effect.catchTag("ConsoleNotBuilt", () => Effect.succeed(notBuilt))
        )
      })
      const limits = {
        max_active_tasks: maxActiveTasks,
        file_bytes: Limits.fileBytes,
        formats: FileFormat.allExtensions
      }
      const describe = (request: HttpServerRequest.HttpServerRequest) =>
        json({
          version,
          audiences: audiencesNow(configured),
          dev_login: mint !== undefined && isOfThisMachine(request),
          extensions: names,
          ...(imageOrigins.length === 0 ? {} : { image_origins: imageOrigins }),
          limits
        })
      yield* router.add("GET", `${prefix}/*`, serve)
      if (configured.includes("users")) yield* router.add("GET", `${prefix}/assistants.json`, yield* makeAssistants)
      yield* router.add("GET", `${prefix}/config.json`, (request) => Effect.sync(() => describe(request)))
      if (mint !== undefined) yield* router.add("POST", `${prefix}/dev-login`, (request) => login(mint, request))
    })
  )

const audiencesIn = (text: string) => {
  const names = commaList(text)
  if (names.join() === "off") return []
  const known = allAudiences.filter((audience) => names.includes(audience))
  if (known.length === 0 || known.length < new Set(names).size) {
    throw new Error("must be `users`, `operators`, `users,operators` or `off`")
  }
  return known
}

/** A wildcard, a path or plain HTTP would let more load than what the operator named. */
const originsIn = (text: string) => {
  const origins = commaList(text).map((given) => {
    const url = URL.parse(given)
    const isOrigin = url !== null && url.protocol === "https:" && /^[a-z0-9.-]+$/.test(url.hostname) &&
      [url.origin, `${url.origin}/`].includes(url.href) && !/[?#]/.test(given)
    if (isOrigin) return url.origin
    throw new Error(
      `must list exact https origins such as https://cdn.example, without a path or wildcard; ${
        given.slice(0, 200)
      } is none`
    )
  })
  return [...new Set(origins)]
}

export const settings = {
  audiences: setting(parsed(audiencesIn), {
    name: "CONSOLE",
    default: "users,operators",
    inProduction: "off",
    meaning: "audiences of the page at `/console`; `off`: there is no such page"
  }),
  imageOrigins: setting(parsed(originsIn), {
    name: "IMAGE_ORIGINS",
    default: "",
    meaning:
      "exact https origins, separated by commas, whose images the console shows in results after a click; others are links"
  })
}

export const extension: Extension = {
  settings,
  load: (read) => {
    const { audiences, imageOrigins } = read(settings)
    if (audiences.length === 0) return { layer: Layer.empty }
    return {
      layer: layer(audiences, imageOrigins),
      links: [{
        path: prefix,
        name: "Console",
        description: "Your tasks, their results and their questions",
        ...(audiences.includes("users") ? { taskPath: (uuid) => `${prefix}/tasks/${uuid}` } : {})
      }]
    }
  },
  routes: {
    routes: [{ method: "GET", path: "/console/*" }, { method: "POST", path: "/console/dev-login" }],
    // The page is for users on the public listener and for operators on the internal one.
    ofBothListeners: ["/console/"],
    sameOrigin: ["/console"]
  }
}
