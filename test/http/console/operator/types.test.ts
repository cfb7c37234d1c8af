/** The console's types of what operators read are those of the service: this file does not compile otherwise. */
import { assert, expectTypeOf, it } from "vitest"
import * as Types from "../../../../src/http/console/operatorTypes.ts"
import type * as Actions from "../../../../src/http/operator/ActionSchemas.ts"
import type * as Views from "../../../../src/http/operator/OperatorSchemas.ts"
import { actions } from "../../../../src/services/operator/Audit.ts"

it("the console reads what the operators' interface returns", () => {
  expectTypeOf<typeof Views.OperatorTasksView.Type>().toExtend<Types.Tasks>()
  expectTypeOf<typeof Views.OperatorTaskDetailView.Type>().toExtend<Types.TaskDetail>()
  expectTypeOf<typeof Views.ContentView.Type>().toExtend<Types.Content>()
  expectTypeOf<typeof Views.OverviewView.Type>().toExtend<Types.Overview>()
  expectTypeOf<typeof Views.ErrorsView.Type>().toExtend<Types.Errors>()
  expectTypeOf<typeof Views.DurationsView.Type>().toExtend<Types.Durations>()
  expectTypeOf<typeof Views.StuckView.Type>().toExtend<Types.Stuck>()
  expectTypeOf<typeof Views.ClocksView.Type>().toExtend<Types.Clocks>()
  expectTypeOf<typeof Views.HistoryView.Type>().toExtend<Types.History>()
  expectTypeOf<typeof Views.OriginsView.Type>().toExtend<Types.Origins>()
  expectTypeOf<typeof Views.OperatorDeliveriesView.Type>().toExtend<Types.Deliveries>()
  expectTypeOf<typeof Views.RedeliveredView.Type>().toExtend<Types.Redelivered>()
  expectTypeOf<typeof Views.OperatorClusterView.Type>().toExtend<Types.Cluster>()
  expectTypeOf<typeof Views.RevocationsView.Type>().toExtend<Types.Revocations>()
  expectTypeOf<typeof Actions.BulkView.Type>().toExtend<Types.Bulk>()
  expectTypeOf<typeof Actions.BulkListView.Type>().toExtend<Types.BulkList>()
  expectTypeOf<typeof Actions.StartedBulkView.Type>().toExtend<Types.StartedBulk>()
  expectTypeOf<typeof Actions.DryRunView.Type>().toExtend<Types.DryRun>()
  expectTypeOf<typeof Actions.AuditView.Type>().toExtend<Types.Audit>()
  expectTypeOf<typeof Actions.UserView.Type>().toExtend<Types.User>()
})

it("the console filters the audit by each action of operators", () => {
  assert.includeMembers(Types.auditActions, [...actions])
})
