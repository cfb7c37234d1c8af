import { assert, it } from "vitest"
import { auditActions } from "../../../../src/http/console/auditActions.ts"
import { actions } from "../../../../src/services/operator/Audit.ts"

it("the console filters the audit by each action of operators", () => {
  assert.includeMembers(auditActions, [...actions])
})
