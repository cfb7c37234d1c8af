/** The group `Tokens` of the internal interface, for token issuers. */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import type { RevokeBody, TokenBody } from "../TokenSchemas.ts"
import { refusals } from "./RpcErrors.ts"
import { RpcAuthorization } from "./RpcMiddleware.ts"
import { bodyOf } from "./RpcTasks.ts"

export class TokensRpc extends RpcGroup.make(
  /** Takes effect immediately on the node that answers and within 5 seconds on the others. */
  Rpc.make("Tokens.revoke", { payload: { revocation: bodyOf<typeof RevokeBody>() }, error: refusals }),
  Rpc.make("Tokens.isRevoked", {
    payload: { token: bodyOf<typeof TokenBody>() },
    success: Schema.Boolean,
    error: refusals
  })
).middleware(RpcAuthorization) {}
