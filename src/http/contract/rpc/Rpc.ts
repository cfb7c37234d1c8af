/** The whole internal interface, at one path. */
import { CoreRpc } from "./RpcCore.ts"
import { OperationsRpc } from "./RpcOperations.ts"
import { TasksRpc } from "./RpcTasks.ts"
import { TokensRpc } from "./RpcTokens.ts"

export const path = "/rpc"

export class InternalRpc extends TasksRpc.merge(CoreRpc, TokensRpc, OperationsRpc) {}
