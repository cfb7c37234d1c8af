/** Every store of tasks and of webhooks in memory, over one set of rows. */
import { Layer } from "effect"
import * as FacadeLegsMemory from "./FacadeLegsMemory.ts"
import { MemoryTables } from "./MemoryTables.ts"
import * as OperatorStoreMemory from "./OperatorStoreMemory.ts"
import * as StopOutboxMemory from "./StopOutboxMemory.ts"
import * as TaskReadsMemory from "./TaskReadsMemory.ts"
import * as TaskRetentionMemory from "./TaskRetentionMemory.ts"
import * as TaskScansMemory from "./TaskScansMemory.ts"
import * as TaskWritesMemory from "./TaskWritesMemory.ts"
import * as WebhookStoreMemory from "./WebhookStoreMemory.ts"

export const layer = Layer.mergeAll(
  TaskWritesMemory.layer,
  TaskReadsMemory.layer,
  TaskScansMemory.layer,
  TaskRetentionMemory.layer,
  StopOutboxMemory.layer,
  FacadeLegsMemory.layer,
  WebhookStoreMemory.layer
).pipe((stores) => Layer.provideMerge(OperatorStoreMemory.layer, stores), Layer.provide(MemoryTables.layer))
