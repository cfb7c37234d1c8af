import { readFileSync } from "node:fs"

/** Of this package, whether it runs from its sources or as built. */
export const version: string = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")).version
