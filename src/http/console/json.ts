/** Reads JSON of unknown shape. */

export type Fields = Readonly<Record<string, unknown>>

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const field = (value: unknown, name: string): unknown =>
  isFields(value) && Object.hasOwn(value, name) ? value[name] : undefined

export const textField = (value: unknown, name: string): string | undefined => {
  const found = field(value, name)
  return typeof found === "string" ? found : undefined
}

export const listField = (value: unknown, name: string): ReadonlyArray<unknown> => {
  const found = field(value, name)
  return Array.isArray(found) ? found : []
}

/** Characters of the text of an output item or a message. */
export const lengthOf = (item: unknown): number =>
  (typeof item === "string" ? item : textField(item, "text") ?? textField(item, "content") ?? "").length

/** Undefined when the text is not JSON. */
export const parse = (text: string): { readonly value: unknown } | undefined => {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

/** Arguments, results and outputs are often JSON in a text: an object or an array. */
export const unfold = (value: unknown): unknown =>
  typeof value === "string" && value.length < 100_000 && /^\s*[[{]/.test(value) ? parse(value)?.value ?? value : value

const fence = /^\s*```(?:json)?\s*\n([^]*?)\n\s*```\s*$/

/** The value of a text that is nothing but JSON, also between the fences of Markdown; undefined for other texts. */
export const jsonIn = (text: string): unknown => {
  const value = unfold(fence.exec(text)?.[1] ?? text)
  return typeof value === "string" ? undefined : value
}

/** What a turn says: its output, else the last message of the assistant, else whatever it has. A turn of any shape shows something. */
export const saidIn = (turn: unknown): ReadonlyArray<unknown> => {
  const output = field(turn, "output")
  const isEmpty = (value: unknown) =>
    value === undefined || value === null || value === "" ||
    (typeof value === "object" && Object.keys(value).length === 0)
  if (!isEmpty(output)) return Array.isArray(output) ? output : [output]
  const said = listField(turn, "messages").findLast((message) => textField(message, "role") === "assistant")
  const content = field(said, "content")
  if (!isEmpty(content)) return Array.isArray(content) ? content : [content]
  const { interrupt: _, messages: __, metadata: ___, output: ____, ...rest } = isFields(turn) ? turn : { turn }
  return Object.values(rest).every(isEmpty) ? [] : [isFields(turn) ? rest : turn]
}

const maxAsk = 300

/** The beginning of what a request asks, in one line; empty when it has no text. */
export const askOf = (request: unknown, maxLength = maxAsk): string => {
  const texts = listField(request, "input").map((item) => textField(item, "text")?.slice(0, maxLength * 4) ?? "")
  const text = texts.join(" ").replaceAll(/\s+/g, " ").trim()
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text
}

/** Whether a request is no more than the line of `askOf`. */
export const isAskOf = (request: unknown): boolean =>
  listField(request, "input").length === 1 && textField(listField(request, "input")[0], "text") === askOf(request)
