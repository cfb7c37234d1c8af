/** The console's types of what operators read are those of the service: this file does not compile otherwise. */
import { assert, it } from "vitest"
import * as Types from "../../../../src/http/console/operatorTypes.ts"
import type * as Actions from "../../../../src/http/operator/ActionSchemas.ts"
import type * as Views from "../../../../src/http/operator/OperatorSchemas.ts"
import { actions } from "../../../../src/services/operator/Audit.ts"

interface Pairs {
  readonly tasks: [typeof Views.OperatorTasksView.Type, Types.Tasks]
  readonly task: [typeof Views.OperatorTaskDetailView.Type, Types.TaskDetail]
  readonly content: [typeof Views.ContentView.Type, Types.Content]
  readonly overview: [typeof Views.OverviewView.Type, Types.Overview]
  readonly errors: [typeof Views.ErrorsView.Type, Types.Errors]
  readonly durations: [typeof Views.DurationsView.Type, Types.Durations]
  readonly stuck: [typeof Views.StuckView.Type, Types.Stuck]
  readonly clocks: [typeof Views.ClocksView.Type, Types.Clocks]
  readonly history: [typeof Views.HistoryView.Type, Types.History]
  readonly origins: [typeof Views.OriginsView.Type, Types.Origins]
  readonly deliveries: [typeof Views.OperatorDeliveriesView.Type, Types.Deliveries]
  readonly redelivered: [typeof Views.RedeliveredView.Type, Types.Redelivered]
  readonly cluster: [typeof Views.OperatorClusterView.Type, Types.Cluster]
  readonly revocations: [typeof Views.RevocationsView.Type, Types.Revocations]
  readonly bulk: [typeof Actions.BulkView.Type, Types.Bulk]
  readonly bulkList: [typeof Actions.BulkListView.Type, Types.BulkList]
  readonly started: [typeof Actions.StartedBulkView.Type, Types.StartedBulk]
  readonly dryRun: [typeof Actions.DryRunView.Type, Types.DryRun]
  readonly audit: [typeof Actions.AuditView.Type, Types.Audit]
  readonly user: [typeof Actions.UserView.Type, Types.User]
}

type Same = { readonly [K in keyof Pairs]: Pairs[K][0] extends Pairs[K][1] ? true : false }

it("the console reads what the operators' interface returns", () => {
  const same: Same = {
    tasks: true,
    task: true,
    content: true,
    overview: true,
    errors: true,
    durations: true,
    stuck: true,
    clocks: true,
    history: true,
    origins: true,
    deliveries: true,
    redelivered: true,
    cluster: true,
    revocations: true,
    bulk: true,
    bulkList: true,
    started: true,
    dryRun: true,
    audit: true,
    user: true
  }
  assert.notInclude(Object.values(same), false)
})

it("the console filters the audit by each action of operators", () => {
  assert.includeMembers(Types.auditActions, [...actions])
})
