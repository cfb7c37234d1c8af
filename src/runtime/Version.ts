import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

/** The path is the same from the sources and from the build. */
export const packageFile = fileURLToPath(new URL("../../package.json", import.meta.url))

const { engines, version: own } = JSON.parse(readFileSync(packageFile, "utf8"))

export const version: string = own

/** Compares by numbers: `localeCompare` would load Unicode's tables, 3 MiB for as long as the service runs. */
const numberOf = (node: string) => {
  const [major = 0, minor = 0] = node.split(".").map(Number)
  return 1000 * major + minor
}

/** Why this version of Node cannot run the service; undefined when it can. */
export const nodeProblem = (node: string): string | undefined => {
  const minimum = String(engines.node).replace(/^>=/, "")
  return numberOf(node) < numberOf(minimum) ? `Node ${node} is too old: ${minimum} or later is required` : undefined
}
