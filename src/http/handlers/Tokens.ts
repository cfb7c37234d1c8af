/** The endpoint and the calls by which token issuers revoke tokens. */
import { DateTime, Effect, Predicate, Redacted } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import type { Principal } from "../../domain/Principal.ts"
import { Revocation } from "../../domain/Revocation.ts"
import { fromMicros, now, Timestamp } from "../../domain/Timestamp.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { TokenRevocations } from "../../services/tokens/TokenRevocations.ts"
import { idOfJti, TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import { Api } from "../contract/Api.ts"
import { invalid } from "../contract/Errors.ts"
import { InternalTokenName } from "../contract/Middleware.ts"
import { TokensRpc } from "../contract/rpc/Rpc.ts"
import type { RevokeBody, TokenBody } from "../contract/TokenSchemas.ts"
import * as Bodies from "./body/Bodies.ts"
import { BodyReader } from "./body/BodyReader.ts"
import { refusing, storeErrors } from "./ErrorResponses.ts"
import { answer, authorOf, decode, tokensUnknown } from "./rpc/RpcRequests.ts"

const momentOf = (given: string | number | null | undefined): Timestamp | null =>
  Predicate.isNullish(given)
    ? null
    : fromMicros(Predicate.isNumber(given) ? given * 1_000_000 : DateTime.makeUnsafe(given).epochMilliseconds * 1000)

const laterOf = (one: Timestamp | null, other: Timestamp | null) =>
  one === null || other === null ? one ?? other : Timestamp.make(Math.max(one, other))

const identify = (verifier: TokenVerifier["Service"], text: string) =>
  verifier.identify(Redacted.make(text)).pipe(
    Effect.mapError(() => invalid("token", "Expected a signed JSON Web Token"))
  )

export const revocationOf = Effect.fnUntraced(function*(
  verifier: TokenVerifier["Service"],
  { expires_at, issued_before, jti, sub, token }: RevokeBody
) {
  const expiresAt = momentOf(expires_at)
  if (sub) {
    const issuedBefore = momentOf(issued_before) ?? (yield* now)
    return Revocation.cases.User.make({ sub, issuedBefore, expiresAt })
  }
  if (!token) return Revocation.cases.Token.make({ tokenId: idOfJti(jti ?? ""), expiresAt })
  const read = yield* identify(verifier, token)
  return Revocation.cases.Token.make({
    tokenId: read.tokenId,
    expiresAt: laterOf(expiresAt, momentOf(read.expiresAt))
  })
})

/** The principal of the token in the body; `sub` and `issuedAt` may be missing. */
const principalOf = Effect.fnUntraced(function*(
  verifier: TokenVerifier["Service"],
  { issued_at, jti, sub, token }: TokenBody
) {
  if (!token) {
    const principal: Principal = { sub: sub ?? "", tokenId: idOfJti(jti ?? ""), issuedAt: issued_at ?? null }
    return principal
  }
  const { issuedAt, sub: owner, tokenId } = yield* identify(verifier, token)
  const principal: Principal = { sub: owner ?? "", tokenId, issuedAt }
  return principal
})

export const layer = HttpApiBuilder.group(
  Api,
  "tokens",
  Effect.fn(function*(handlers) {
    const tasks = yield* Tasks
    const verifier = yield* TokenVerifier
    const { read } = yield* BodyReader
    return handlers.handleRaw(
      "revoke",
      Effect.fnUntraced(function*({ request }) {
        const { body } = yield* read(Bodies.revokeTokens, request)
        yield* tasks.revoke(yield* revocationOf(verifier, body), `internal:${yield* InternalTokenName}`)
        return HttpServerResponse.empty({ status: 204 })
      }, refusing(storeErrors))
    )
  })
)

export const layerRpc = TokensRpc.toLayer(
  Effect.gen(function*() {
    const tasks = yield* Tasks
    const verifier = yield* TokenVerifier
    const revocations = yield* TokenRevocations
    return TokensRpc.of({
      "Tokens.revoke": ({ revocation }, { headers }) =>
        decode(Bodies.revokeTokens, revocation).pipe(
          Effect.flatMap((body) => revocationOf(verifier, body)),
          Effect.flatMap((read) => tasks.revoke(read, authorOf(headers))),
          answer
        ),
      "Tokens.isRevoked": ({ token }) =>
        decode(Bodies.token, token).pipe(
          Effect.flatMap((body) => principalOf(verifier, body)),
          Effect.flatMap(revocations.check),
          Effect.as(false),
          Effect.catchTags({
            TokenIsRevoked: () => Effect.succeed(true),
            RevocationsUnknown: () => Effect.fail(tokensUnknown)
          }),
          answer
        )
    })
  })
)
