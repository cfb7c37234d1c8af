/** The group `Tokens` of the internal interface, for those who issue tokens (CONTRACT 6). */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import type { RevokeBody, TokenBody } from "../TokenSchemas.ts"
import { InvalidRequest, Unavailable } from "./RpcErrors.ts"
import { RpcAuthorization } from "./RpcMiddleware.ts"
import { bodyOf } from "./RpcTasks.ts"

export class TokensRpc extends RpcGroup.make(
  /** At once on the node that answers, on every other within 5 seconds. */
  Rpc.make("Tokens.revoke", { payload: { revocation: bodyOf<typeof RevokeBody>() }, error: InvalidRequest }),
  Rpc.make("Tokens.isRevoked", {
    payload: { token: bodyOf<typeof TokenBody>() },
    success: Schema.Boolean,
    error: Schema.Union([InvalidRequest, Unavailable])
  })
).middleware(RpcAuthorization) {}
