/** Exports of `async-task-service/rpc`: the RPC groups of the internal interface, their errors, and the client. */
export * from "../../domain/TaskErrors.ts"
export { DeliveryNeedsSecret, DeliveryNotFound } from "../../domain/Webhook.ts"
export { CoreRpc, InternalRpc, path, TokensRpc } from "../contract/rpc/Rpc.ts"
export * from "../contract/rpc/RpcErrors.ts"
export { TasksRpc } from "../contract/rpc/RpcTasks.ts"
export { follow, type InternalClient, layerHttp, layerWebSocket, make, type RpcOptions } from "./RpcClient.ts"
