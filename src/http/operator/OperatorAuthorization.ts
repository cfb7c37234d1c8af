/**
 * Implements `OperatorAuthorization`, and the routes of sessions. A browser keeps a sealed cookie that scripts cannot read and
 * other sites do not send; a change also needs a header that only scripts of this origin can set.
 */
import { ByteSize, Context, Duration, Effect, Layer, Schema } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { format, type Timestamp } from "../../domain/Timestamp.ts"
import { Audit } from "../../services/operator/Audit.ts"
import {
  type LogInRefused,
  type Operator,
  OperatorSessions,
  TooManyLogIns
} from "../../services/operator/OperatorSessions.ts"
import { codeOfStatus } from "../contract/ErrorCodes.ts"
import { Forbidden, ServiceUnavailable, type Unauthorized } from "../contract/Errors.ts"
import { bearerOf, refusal, unauthorized } from "../handlers/Authorization.ts"
import { CurrentOperator, OperatorAuthorization } from "../OperatorRoutes.ts"

/** True if browsers send the cookie by HTTPS, or to loopback, only. */
export const HasSecureCookie = Context.Reference(
  "async-task-service/http/operator/OperatorAuthorization/HasSecureCookie",
  { defaultValue: () => true }
)

/** The origin of `PUBLIC_URL`. */
export const PublicOrigin = Context.Reference<string | undefined>(
  "async-task-service/http/operator/OperatorAuthorization/PublicOrigin",
  { defaultValue: () => undefined }
)

/** Extensions have routes for operators beside `/internal/operator`. */
const cookiePath = "/internal"
const path = "/internal/operator/session"

/** The routes of sessions. They are for browsers, so no document describes them. */
export const sessionRoutes = ["POST", "GET", "DELETE"].map((method) => ({ method, path }))
const cookieName = (isSecure: boolean) => isSecure ? "__Secure-operator" : "operator"

const cookieOf = (value: string, isSecure: boolean, more = "") =>
  `${cookieName(isSecure)}=${value}; Path=${cookiePath}; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}${more}`

const isRead = (method: string) => method === "GET" || method === "HEAD"

const foreign = new Forbidden({
  message: "A change with a session needs the header X-Console: 1, from a page of this origin."
})
const readOnly = new Forbidden({ message: "This token may only read." })

/** True for the origin of a page of this service: `PUBLIC_URL`, or the host of the request, whose scheme a proxy may have changed. */
const isOwn = (origin: string, host: string | undefined, publicOrigin: string | undefined) =>
  [publicOrigin, `http://${host}`, `https://${host}`].includes(origin)

/**
 * A page of another origin cannot set `X-Console`, because no response allows it by CORS. Browsers say in `Sec-Fetch-Site` where the page
 * is from, also behind a proxy that changes the host; `Origin` says it of others.
 */
const makeCheckOrigin = Effect.map(PublicOrigin, (publicOrigin) => (request: HttpServerRequest.HttpServerRequest) => {
  const { host, origin, "sec-fetch-site": site, "x-console": mark } = request.headers
  const isSame = site === undefined
    ? origin === undefined || isOwn(origin, host, publicOrigin)
    : site === "same-origin"
  const isAllowed = mark === "1" && isSame
  return isRead(request.method) || isAllowed ? Effect.void : Effect.fail(foreign)
})

interface Access {
  readonly operator: Operator
  /** A cookie to set: the session was sealed long ago. */
  readonly cookie: string | undefined
  readonly expiresAt: Timestamp | undefined
}

type AccessError = Unauthorized | Forbidden | ServiceUnavailable

const makeAccess = Effect.gen(function*() {
  const sessions = yield* OperatorSessions
  const isSecure = yield* HasSecureCookie
  const checkOrigin = yield* makeCheckOrigin

  const openOf = (request: HttpServerRequest.HttpServerRequest) =>
    Effect.mapError(sessions.open(request.cookies[cookieName(isSecure)] ?? ""), refusal)

  const ofSession = Effect.fnUntraced(
    function*(request: HttpServerRequest.HttpServerRequest): Effect.fn.Return<Access, AccessError> {
      const session = yield* openOf(request)
      if (session === undefined) return yield* unauthorized
      yield* checkOrigin(request)
      const { expiresAt, issuedAt, operator } = session
      const cookie = session.isStale ? cookieOf(yield* sessions.seal(operator, issuedAt), isSecure) : undefined
      return { operator, cookie, expiresAt }
    }
  )

  const ofRequest = Effect.fnUntraced(
    function*(request: HttpServerRequest.HttpServerRequest): Effect.fn.Return<Access, AccessError> {
      if (request.headers["authorization"] === undefined) return yield* ofSession(request)
      const operator = yield* sessions.identify(bearerOf(request))
      return operator === undefined ? yield* unauthorized : { operator, cookie: undefined, expiresAt: undefined }
    }
  )

  return { sessions, isSecure, checkOrigin, openOf, ofRequest }
})

const withCookie = (cookie: string | undefined) => (response: HttpServerResponse.HttpServerResponse) =>
  HttpServerResponse.setHeaders(response, {
    "cache-control": "no-store",
    ...(cookie === undefined ? {} : { "set-cookie": cookie })
  })

export const layer = Layer.effect(
  OperatorAuthorization,
  Effect.map(Effect.all([makeAccess, Audit]), ([{ ofRequest }, { record }]) =>
    OperatorAuthorization.of({
      operatorToken: Effect.fnUntraced(function*(handler) {
        const request = yield* HttpServerRequest.HttpServerRequest
        const { cookie, operator } = yield* ofRequest(request)
        if (operator.role === "read" && !isRead(request.method)) return yield* readOnly
        const via = request.headers["authorization"] === undefined
          ? "console"
          : request.headers["x-via"] === "cli"
          ? "cli"
          : "api"
        return withCookie(cookie)(
          yield* Effect.provideService(handler, CurrentOperator, {
            ...operator,
            audited: (line, change) => record({ name: operator.name, via }, line, change)
          })
        )
      })
    }))
)

const LogIn = Schema.Struct({ token: Schema.String })

const refuse = (error: AccessError | LogInRefused | StoreUnavailable | TooManyLogIns) => {
  const isOutage = error instanceof ServiceUnavailable || error instanceof StoreUnavailable
  const status = isOutage ? 503 : error instanceof Forbidden ? 403 : error instanceof TooManyLogIns ? 429 : 401
  return Effect.succeed(
    HttpServerResponse.jsonUnsafe({ message: error.message, code: codeOfStatus(status) }, { status })
  )
}

export const layerSessions = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const { checkOrigin, isSecure, ofRequest, openOf, sessions } = yield* makeAccess

    const logIn = (request: HttpServerRequest.HttpServerRequest) =>
      Effect.gen(function*() {
        yield* checkOrigin(request)
        const { token } = yield* HttpServerRequest.schemaBodyJson(LogIn).pipe(
          Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.kibibytes(16)),
          Effect.timeout(Duration.seconds(5)),
          Effect.mapError(() => unauthorized)
        )
        const operator = yield* sessions.logIn(token.trim())
        yield* Effect.annotateLogs(Effect.logInfo("an operator logged in"), operator)
        const cookie = cookieOf(yield* sessions.seal(operator), isSecure)
        return withCookie(cookie)(HttpServerResponse.empty({ status: 204 }))
      }).pipe(Effect.catch(refuse))

    const show = (request: HttpServerRequest.HttpServerRequest) =>
      ofRequest(request).pipe(
        Effect.map(({ cookie, expiresAt, operator }) =>
          withCookie(cookie)(
            HttpServerResponse.jsonUnsafe({
              role: operator.role,
              name: operator.name,
              expires_at: expiresAt === undefined ? null : format(expiresAt)
            })
          )
        ),
        Effect.catch(refuse)
      )

    const end = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const session = yield* openOf(request)
      if (session !== undefined) yield* sessions.end(session)
      return HttpServerResponse.empty({ status: 204 })
    })

    /** Without the database the browser loses its cookie too. */
    const logOut = (request: HttpServerRequest.HttpServerRequest) =>
      checkOrigin(request).pipe(
        Effect.andThen(Effect.catch(end(request), refuse)),
        Effect.map(withCookie(cookieOf("", isSecure, "; Max-Age=0"))),
        Effect.catch(refuse)
      )

    yield* router.add("POST", path, logIn)
    yield* router.add("GET", path, show)
    yield* router.add("DELETE", path, logOut)
  })
)
