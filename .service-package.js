/**
 * `prepack` writes the package.json that users of the package get, and `postpack` restores the one of the checkout. The bundle holds
 * all libraries. The clients need only `effect`, which must be the user's own: two copies cannot read each other's `Redacted`.
 */
import * as fs from "node:fs"

const file = "package.json"
const kept = "node_modules/.cache/package.json"
const next = "node_modules/.cache/package.next.json"

/** What the test kit imports besides `effect`; their peers take any `effect` that ours takes. */
const libraries = ["@effect/sql-pg", "jose"]

const text = fs.readFileSync(file, "utf8")
const { allowScripts: _, dependencies, devDependencies, knip: _1, scripts: _2, ...published } = JSON.parse(text)

/** Only the manifest of the checkout has them. */
const isStripped = devDependencies === undefined

const restore = () => {
  if (!fs.existsSync(kept)) {
    throw new Error(`${file} is the one of the package, and ${kept} is gone: restore it with git`)
  }
  fs.renameSync(kept, file)
}

if (process.argv[2] === "restore") {
  if (isStripped) restore()
} else if (isStripped) {
  // npm has read this manifest, and has built nothing.
  restore()
  throw new Error(
    `an interrupted npm pack had left the ${file} of the package. That of the checkout is restored: try again`
  )
} else {
  fs.mkdirSync("node_modules/.cache", { recursive: true })
  fs.writeFileSync(kept, text)
  const manifest = {
    ...published,
    // Without it, npm would pack what an interrupted run has left.
    scripts: { prepack: "node .service-package.js" },
    dependencies: Object.fromEntries(libraries.map((name) => [name, dependencies[name]]))
  }
  fs.writeFileSync(next, `${JSON.stringify(manifest, null, 2)}\n`)
  fs.renameSync(next, file)
}
