/** The whole internal interface, at one path. */
import { CoreRpc } from "./RpcCore.ts"
import { TasksRpc } from "./RpcTasks.ts"

export const path = "/rpc"

export class InternalRpc extends TasksRpc.merge(CoreRpc) {}
