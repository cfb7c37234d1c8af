/** Every store of tasks and of webhooks in Postgres. */
import { Layer } from "effect"
import * as FacadeLegsSql from "./FacadeLegsSql.ts"
import * as StopOutboxSql from "./StopOutboxSql.ts"
import * as TaskReadsSql from "./TaskReadsSql.ts"
import * as TaskRetentionSql from "./TaskRetentionSql.ts"
import * as TaskScansSql from "./TaskScansSql.ts"
import * as TaskWritesSql from "./TaskWritesSql.ts"
import * as WebhookStoreSql from "./WebhookStoreSql.ts"

export const layer = Layer.mergeAll(
  TaskWritesSql.layer,
  TaskReadsSql.layer,
  TaskScansSql.layer,
  TaskRetentionSql.layer,
  StopOutboxSql.layer,
  FacadeLegsSql.layer,
  WebhookStoreSql.layer
)
