/** Handlers of `contract/rpc/RpcTokens`, with the use case of REST's `POST /internal/tokens/revoke`. */
import { Effect } from "effect"
import { Tasks } from "../../../services/Tasks.ts"
import { TokenRevocations } from "../../../services/tokens/TokenRevocations.ts"
import { TokenVerifier } from "../../../services/tokens/TokenVerifier.ts"
import { TokensRpc } from "../../contract/rpc/RpcTokens.ts"
import { bodies } from "../body/Bodies.ts"
import * as TokenBodies from "../TokenBodies.ts"
import { asInvalidRequest, refuseOutage, tokensUnknown } from "./RpcRequests.ts"

export const layer = TokensRpc.toLayer(
  Effect.gen(function*() {
    const tasks = yield* Tasks
    const verifier = yield* TokenVerifier
    const revocations = yield* TokenRevocations
    return TokensRpc.of({
      "Tokens.revoke": ({ revocation }) =>
        bodies.revokeTokens.decode(revocation).pipe(
          Effect.flatMap((body) => TokenBodies.revocationOf(verifier, body)),
          Effect.mapError(asInvalidRequest),
          Effect.flatMap(tasks.revoke),
          refuseOutage
        ),
      "Tokens.isRevoked": ({ token }) =>
        bodies.token.decode(token).pipe(
          Effect.flatMap((body) => TokenBodies.principalOf(verifier, body)),
          Effect.mapError(asInvalidRequest),
          Effect.flatMap((principal) =>
            revocations.check(principal).pipe(
              Effect.as(false),
              Effect.catchTags({
                TokenIsRevoked: () => Effect.succeed(true),
                RevocationsUnknown: () => Effect.fail(tokensUnknown)
              })
            )
          )
        )
    })
  })
)
