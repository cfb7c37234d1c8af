/** Parsers of compound setting values; each throws an error with the reason when the value is invalid. */
import { type ConsoleAudience, consoleAudiences } from "../../http/ConsoleAssets.ts"
import type { CorsOrigins } from "../../http/Cors.ts"
import type { FacadeModel } from "../../http/facades/Facades.ts"

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
  const known = consoleAudiences.filter((audience) => names.includes(audience))
  if (known.length === 0 || known.length < new Set(names).size) {
    throw new Error("must be users, operators or both, or off")
  }
  return known
}

export const isOpenAiOn = (text: string): boolean => {
  const names = commaList(text).join()
  if (names !== "off" && names !== "openai") throw new Error("must be off or openai")
  return names === "openai"
}

const modelPattern = /^([^=\s]{1,64})=([1-9]\d{0,14})(?::([1-9]\d{0,14})(?::([1-9]\d{0,14}))?)?$/

const idOrNull = (text: string | undefined) => text === undefined ? null : Number(text)

export const modelsOf = (text: string): ReadonlyMap<string, FacadeModel> =>
  new Map(
    commaList(text).map((item) => {
      const [, name, assistant, llm, image] = modelPattern.exec(item) ?? []
      if (name === undefined) throw new Error(`${item} is no model as in gpt-5=1 or analyst=20:2`)
      return [name, { assistantId: Number(assistant), llmModelId: idOrNull(llm), imageGeneratorId: idOrNull(image) }]
    })
  )
