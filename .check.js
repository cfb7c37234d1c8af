/** Runs every check, the cheap ones first, and prints only what the failed ones say. */
import { spawnSync } from "node:child_process"
import { rmSync, statSync } from "node:fs"

const changedAt = (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0

// tsc does not see that its plugin, or the plugin's configuration, has changed.
const learned = "node_modules/.cache/tsc.json"
if (["tsconfig.json", "package-lock.json"].some((path) => changedAt(path) > changedAt(learned))) {
  rmSync(learned, { force: true })
}

for (const step of ["format", "lint", "unused", "functions", "generated", "types"]) {
  const { status, stderr, stdout } = spawnSync("node", ["--run", `check:${step}`], { encoding: "utf8" })
  if (status === 0) continue
  process.exitCode = 1
  console.log(`npm run check:${step}\n\n${stdout}${stderr}`)
}
