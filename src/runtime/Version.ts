import { readFileSync } from "node:fs"

/** The version of this package. The path is the same from the sources and from the build. */
export const version: string = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")).version
