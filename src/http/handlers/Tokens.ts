/** Where those who issue tokens revoke them (CONTRACT 6). */
import { DateTime, Effect, Predicate, Redacted } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Revocation } from "../../domain/Revocation.ts"
import { now, Timestamp } from "../../domain/Timestamp.ts"
import { Tasks } from "../../services/Tasks.ts"
import { idOfJti, TokenVerifier } from "../../services/TokenVerifier.ts"
import { Api } from "../contract/Api.ts"
import { invalid } from "../contract/Errors.ts"
import { RevokeBody } from "../contract/TokenSchemas.ts"
import * as JsonBody from "./JsonBody.ts"

const readBody = JsonBody.reader(RevokeBody)

const momentOf = (given: string | number | null | undefined): Timestamp | null =>
  Predicate.isNullish(given)
    ? null
    : Timestamp.make(
      Math.round(Predicate.isNumber(given) ? given * 1_000_000 : DateTime.makeUnsafe(given).epochMilliseconds * 1000)
    )

const laterOf = (one: Timestamp | null, other: Timestamp | null) =>
  one === null || other === null ? one ?? other : Timestamp.make(Math.max(one, other))

export const layer = HttpApiBuilder.group(
  Api,
  "tokens",
  Effect.fn(function*(handlers) {
    const tasks = yield* Tasks
    const verifier = yield* TokenVerifier

    const revocationOf = Effect.fnUntraced(function*({ expires_at, issued_before, jti, sub, token }: RevokeBody) {
      const expiresAt = momentOf(expires_at)
      if (sub) {
        const issuedBefore = momentOf(issued_before) ?? (yield* now)
        return Revocation.cases.User.make({ sub, issuedBefore, expiresAt })
      }
      if (!token) return Revocation.cases.Token.make({ tokenId: idOfJti(jti ?? ""), expiresAt })
      const read = yield* verifier.identify(Redacted.make(token)).pipe(
        Effect.mapError(() => invalid("token", "Expected a signed JSON Web Token"))
      )
      return Revocation.cases.Token.make({
        tokenId: read.tokenId,
        expiresAt: laterOf(expiresAt, momentOf(read.expiresAt))
      })
    })

    return handlers.handleRaw(
      "revoke",
      Effect.fnUntraced(function*({ request }) {
        yield* tasks.revoke(yield* revocationOf(yield* readBody(request)))
        return HttpServerResponse.empty({ status: 204 })
      })
    )
  })
)
