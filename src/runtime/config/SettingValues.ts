/** Parsers of compound setting values; each throws an error with the reason when the value is invalid. */
import type { ConsoleAudience } from "../../http/ConsoleAssets.ts"
import type { CorsOrigins } from "../../http/Cors.ts"

export const withoutTrailingSlash = (url: URL) => url.href.replace(/(?<!\/)\/+$/, "")

export const commaList = (text: string): ReadonlyArray<string> =>
  text.split(",").map((item) => item.trim()).filter((item) => item !== "")

export const originsOf = (text: string): CorsOrigins => {
  if (text.trim() === "*") return "*"
  const origins = commaList(text)
  const wrong = origins.filter((origin) => !URL.canParse(origin) || new URL(origin).origin !== origin)
  if (wrong.length > 0) throw new Error(`${wrong.join(", ")} is no origin as in https://app.example`)
  return origins
}

export const nonEmpty = <A>(items: ReadonlyArray<A>): readonly [A, ...Array<A>] => {
  const [first, ...rest] = items
  if (first === undefined) throw new Error("must not be empty")
  return [first, ...rest]
}

export const audiencesOf = (text: string): ReadonlyArray<ConsoleAudience> => {
  const names = commaList(text)
  if (names.join() === "off") return []
  if (names.length === 0 || !names.every((name) => name === "users" || name === "operators")) {
    throw new Error("must be users or off")
  }
  // There are no screens for operators yet.
  return names.includes("users") ? ["users"] : []
}
