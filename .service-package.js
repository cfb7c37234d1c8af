/**
 * `prepack` writes the package.json that users of the package get, and `postpack` restores the one of the checkout. The bundle holds
 * all libraries. The clients need only `effect`, which must be the user's own: two copies cannot read each other's `Redacted`.
 */
import * as fs from "node:fs"

const file = "package.json"
const kept = "node_modules/.cache/package.json"

/** What the test kit imports besides `effect`; their peers take any `effect` that ours takes. */
const libraries = ["@effect/sql-pg", "jose"]

if (process.argv[2] === "restore") {
  fs.renameSync(kept, file)
} else {
  const text = fs.readFileSync(file, "utf8")
  const { allowScripts: _, dependencies, devDependencies: _1, knip: _2, scripts: _3, ...published } = JSON.parse(text)
  fs.mkdirSync("node_modules/.cache", { recursive: true })
  fs.writeFileSync(kept, text)
  const manifest = {
    ...published,
    dependencies: Object.fromEntries(libraries.map((name) => [name, dependencies[name]]))
  }
  fs.writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`)
}
