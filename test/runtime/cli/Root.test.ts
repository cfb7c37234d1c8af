import { assert, it } from "vitest"
import { asFailure } from "../../../src/runtime/cli/Root.ts"

it("the failure of a command names the failed connection to each address of a host", () => {
  const refused = ["::1", "127.0.0.1"].map((address) => new Error(`connect ECONNREFUSED ${address}:3000`))
  const failure = asFailure(new TypeError("fetch failed", { cause: new AggregateError(refused) }))
  assert.strictEqual(
    failure.message,
    "fetch failed: connect ECONNREFUSED ::1:3000; connect ECONNREFUSED 127.0.0.1:3000"
  )
})
