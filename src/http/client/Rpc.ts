/** What `async-task-service/rpc` exports: the groups of the internal interface, their errors, and the client. */
export * from "../../domain/TaskErrors.ts"
export { InternalRpc, path } from "../contract/Rpc.ts"
export { CoreRpc } from "../contract/RpcCore.ts"
export * from "../contract/RpcErrors.ts"
export { RpcAuthorization } from "../contract/RpcMiddleware.ts"
export { TasksRpc } from "../contract/RpcTasks.ts"
export { TokensRpc } from "../contract/RpcTokens.ts"
export { follow, type InternalClient, layerHttp, layerWebSocket, make, type RpcOptions } from "./RpcClient.ts"
