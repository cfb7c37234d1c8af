/**
 * A database keeps its functions until a migration runs: a change of them needs a migration of its own, which may be empty. This
 * compares the text, and so finds no fault in it; the tests do.
 */
import { createHash } from "node:crypto"
import { functions } from "./src/services/store/schema/Functions.ts"
import { latest } from "./src/services/store/schema/Migrations.ts"

const known = { hash: "2122737292a889f5", latest: 10 }

const hash = createHash("sha256").update(functions.join("\n")).digest("hex").slice(0, 16)
if (hash !== known.hash || latest !== known.latest) {
  console.log(
    `The functions of the database (${hash}) or the newest migration (${latest}) have changed. Where the functions have, append`
      + ` replaceFunctions to the migrations in src/services/store/schema/Migrations.ts. Then write into .check-functions.js:\n\n`
      + `const known = ${JSON.stringify({ hash, latest })}`
  )
  process.exitCode = 1
}
