/** The whole internal interface, at one path. */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import type { CoreEvent } from "../../../domain/CoreProtocol.ts"
import { RunSuperseded, TaskNotFound } from "../../../domain/TaskErrors.ts"
import { ReportedView } from "../TaskSchemas.ts"
import type { RevokeBody, TokenBody } from "../TokenSchemas.ts"
import { InvalidRequest, refusals, RpcAuthorization, Unavailable } from "./RpcErrors.ts"
import { bodyOf, TasksRpc } from "./RpcTasks.ts"

export const path = "/rpc"

/** The same events as `POST /internal/core/events`. */
export class CoreRpc extends RpcGroup.make(
  Rpc.make("Core.report", {
    payload: { event: bodyOf<typeof CoreEvent>() },
    success: ReportedView,
    error: Schema.Union([InvalidRequest, Unavailable, TaskNotFound, RunSuperseded])
  })
).middleware(RpcAuthorization) {}

/** For token issuers. */
export class TokensRpc extends RpcGroup.make(
  /** Takes effect immediately on the node that answers and within 5 seconds on the others. */
  Rpc.make("Tokens.revoke", { payload: { revocation: bodyOf<typeof RevokeBody>() }, error: refusals }),
  Rpc.make("Tokens.isRevoked", {
    payload: { token: bodyOf<typeof TokenBody>() },
    success: Schema.Boolean,
    error: refusals
  })
).middleware(RpcAuthorization) {}

export class InternalRpc extends TasksRpc.merge(CoreRpc, TokensRpc) {}
