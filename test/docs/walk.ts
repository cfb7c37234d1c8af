/** The walk of one task in the page of the services: its steps, each with its files. */
import * as fs from "node:fs"
import * as path from "node:path"

export const root = path.resolve(import.meta.dirname, "../..")

const folder = "src/services"
const begin = "## Start here: one task from POST to webhook"

/** The paths of the files from the root, by step. */
export const steps = (): ReadonlyArray<ReadonlyArray<string>> => {
  const page = fs.readFileSync(path.join(root, folder, "README.md"), "utf8")
  const walk = page.slice(page.indexOf(begin)).split("Layers are composed")[0] ?? ""
  return walk.split(/^\d+\. /m).slice(1).map((step) =>
    [...step.matchAll(/^ *- \[[^\]]+\]\(([^)]+)\)/gm)].map(([, link = ""]) => path.join(folder, link))
  )
}
