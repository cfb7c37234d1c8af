/** Serves what other extensions show to operators, for tokens and sessions as all that operators read. */
import { Effect } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { ValidationFailed } from "../contract/Errors.ts"
import { OperatorReads } from "../OperatorReads.ts"
import { orRefuse } from "./Operator.ts"
import { makeAccess, refuse, withCookie } from "./OperatorAuthorization.ts"

const refuseQuery = ({ errors, message }: ValidationFailed) =>
  HttpServerResponse.jsonUnsafe({ message, errors }, { status: 422 })

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const { ofRequest } = yield* makeAccess
    for (const { path, read } of yield* Effect.all(yield* OperatorReads)) {
      yield* router.add("GET", path, (request) =>
        Effect.gen(function*() {
          const { cookie } = yield* ofRequest(request)
          const query = yield* HttpServerRequest.ParsedSearchParams
          const bytes = yield* orRefuse(read(query))
          return withCookie(cookie)(HttpServerResponse.uint8Array(bytes, { contentType: "application/json" }))
        }).pipe(
          Effect.catch((error) =>
            error instanceof ValidationFailed ? Effect.succeed(refuseQuery(error)) : refuse(error)
          )
        ))
    }
  })
)
