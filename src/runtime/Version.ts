import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

/** The path is the same from the sources and from the build. */
export const packageFile = fileURLToPath(new URL("../../package.json", import.meta.url))

const { engines, version: own } = JSON.parse(readFileSync(packageFile, "utf8"))

export const version: string = own

/** Why this version of Node cannot run the service; undefined when it can. */
export const nodeProblem = (node: string): string | undefined => {
  const minimum = String(engines.node).replace(/^>=/, "")
  return node.localeCompare(minimum, "en", { numeric: true }) < 0
    ? `Node ${node} is too old: ${minimum} or later is required`
    : undefined
}
