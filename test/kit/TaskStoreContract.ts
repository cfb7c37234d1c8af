/** The contracts of every store of tasks and of webhooks, which run on memory and on Postgres. */
import { Effect } from "effect"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { redeliveryContract } from "./RedeliveryContract.ts"
import * as RevocationContract from "./RevocationContract.ts"
import * as StopOutboxContract from "./StopOutboxContract.ts"
import type { StoreTests } from "./StoredTasks.ts"
import * as TaskModel from "./TaskModel.ts"
import * as TaskReadsContract from "./TaskReadsContract.ts"
import * as TaskRequestsContract from "./TaskRequestsContract.ts"
import * as TaskRetentionContract from "./TaskRetentionContract.ts"
import * as TaskScansContract from "./TaskScansContract.ts"
import * as TaskWritesContract from "./TaskWritesContract.ts"
import { claimContract } from "./WebhookClaimContract.ts"
import * as WebhookStoreContract from "./WebhookStoreContract.ts"

export const contract = (it: StoreTests) => {
  TaskModel.contract(it, Effect.map(TaskStore, (store) => [store]))
  TaskWritesContract.contract(it)
  TaskReadsContract.contract(it)
  TaskRequestsContract.contract(it)
  TaskScansContract.contract(it)
  TaskRetentionContract.contract(it)
  StopOutboxContract.contract(it)
  RevocationContract.contract(it)
  WebhookStoreContract.contract(it)
  claimContract(it)
  redeliveryContract(it)
}
