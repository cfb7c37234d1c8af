/**
 * A database keeps its tables and functions until a migration runs: a change of them needs a migration of its own, which is empty if only
 * the functions have changed. This compares the text, and so finds no fault in it; the tests do.
 */
import { createHash } from "node:crypto"
import { statements } from "./src/services/store/schema/0001_schema.ts"
import { statements as queue } from "./src/services/store/schema/0002_queue.ts"
import { statements as actors } from "./src/services/store/schema/0003_actors.ts"
import { functions } from "./src/services/store/schema/Functions.ts"
import { latest } from "./src/services/store/schema/Migrations.ts"

const known = { hash: "dacecee89155baf2", latest: 4 }

const hash = createHash("sha256").update([...statements, ...queue, ...actors, ...functions].join("\n")).digest("hex")
  .slice(0, 16)
if (hash !== known.hash || latest !== known.latest) {
  console.log(
    `The tables or functions of the database (${hash}) or the newest migration (${latest}) have changed. Append a migration in`
      + ` src/services/store/schema/Migrations.ts, an empty one for functions alone. Then write into .check-functions.js:\n\n`
      + `const known = ${JSON.stringify({ hash, latest })}`
  )
  process.exitCode = 1
}
