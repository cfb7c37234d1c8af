/** The group `Core` of the internal interface: the same events as `POST /internal/core/events`. */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import type { CoreEvent } from "../../../domain/CoreProtocol.ts"
import { RunSuperseded, TaskNotFound } from "../../../domain/TaskErrors.ts"
import { ReportedView } from "../TaskSchemas.ts"
import { InvalidRequest, Unavailable } from "./RpcErrors.ts"
import { RpcAuthorization } from "./RpcMiddleware.ts"
import { bodyOf } from "./RpcTasks.ts"

export class CoreRpc extends RpcGroup.make(
  Rpc.make("Core.report", {
    payload: { event: bodyOf<typeof CoreEvent>() },
    success: ReportedView,
    error: Schema.Union([InvalidRequest, Unavailable, TaskNotFound, RunSuperseded])
  })
).middleware(RpcAuthorization) {}
