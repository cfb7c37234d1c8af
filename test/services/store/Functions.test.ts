import { createHash } from "node:crypto"
import { assert, it } from "vitest"
import { functions } from "../../../src/services/store/Functions.ts"
import { latest } from "../../../src/services/store/Migrations.ts"

// A database keeps its functions until a migration runs.
it("a change of the functions has a migration of its own, which may be empty: then change both values here", () => {
  const hash = createHash("sha256").update(functions.join("\n")).digest("hex").slice(0, 16)
  assert.deepStrictEqual({ hash, latest }, { hash: "28d02e689d331e4a", latest: 8 })
})
