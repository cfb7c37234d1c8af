/** The page of the reference: the repository's, or the copy in the build. */
import { existsSync, readFileSync } from "node:fs"

const places = ["../../src/http/README.md", "../reference.md"].map((place) => new URL(place, import.meta.url))

export const reference = (): string => {
  const found = places.find((place) => existsSync(place))
  return found === undefined ? "" : readFileSync(found, "utf8")
}
