/** Converts schema issues of a body into messages by field, without internal names and of a bounded size. */
import { Predicate, type SchemaAST, SchemaIssue } from "effect"
import type { Excess } from "../../../domain/json/RawJson.ts"
import type { ErrorCode } from "../../contract/ErrorCodes.ts"
import { ValidationFailed } from "../../contract/Errors.ts"

export type Path = ReadonlyArray<PropertyKey>

/** Maximum number of messages about one body, which could break a rule a million times. */
const maxMessages = 100
/** Maximum characters of a message or of a field's path, which may repeat a text of the body. */
const maxLength = 512

/** The messages so far, by field. */
export class FieldErrors {
  readonly #byField = new Map<string, Array<string>>()
  readonly #whole: string
  #count = 0
  /** The items of a list that are in front of the ones whose errors are added. */
  offset: { readonly list: string; readonly items: number } | undefined

  /** `whole` is the field of messages about the whole value. */
  constructor(whole = "body") {
    this.#whole = whole
  }

  get isEmpty() {
    return this.#count === 0
  }

  /** True if further messages are dropped. */
  get isFull() {
    return this.#count >= maxMessages
  }

  add(given: Path, message: string): void {
    if (this.isFull) return
    const [list, index, ...rest] = given
    const { offset } = this
    const path = offset !== undefined && list === offset.list && typeof index === "number"
      ? [list, index + offset.items, ...rest]
      : given
    const field = path.map((key) => String(key).slice(0, maxLength)).join(".").slice(0, maxLength) || this.#whole
    const messages = this.#byField.get(field) ?? []
    const text = message.slice(0, maxLength)
    if (messages.includes(text)) return
    messages.push(text)
    this.#byField.set(field, messages)
    this.#count++
  }

  addExcess(excess: ReadonlyArray<Excess>): void {
    for (const { maximum, path, unit } of excess) this.add(path, `Expected at most ${maximum} ${unit}`)
  }

  toError(): ValidationFailed {
    return validationFailed(Object.fromEntries(this.#byField))
  }
}

export const validationFailed = (
  errors: Readonly<Record<string, ReadonlyArray<string>>>,
  code: ErrorCode = "validation_failed"
): ValidationFailed => {
  const [field, messages] = Object.entries(errors)[0] ?? ["body", ["is invalid"]]
  const others = Object.keys(errors).length - 1
  const more = others > 0 ? ` (and ${others} more ${others === 1 ? "error" : "errors"})` : ""
  return new ValidationFailed({ message: `${field}: ${messages[0]}${more}`, code, errors })
}

const formatIssue = SchemaIssue.makeFormatterStandardSchemaV1()

/** Describes the expected type for a client, which does not know the names of internal schemas. */
const expectedBy = (ast: SchemaAST.AST): string | undefined => {
  const expected = ast.annotations?.["expected"]
  if (typeof expected === "string") return expected
  return ast._tag === "Objects" ? "an object" : undefined
}

const messageOf = (issue: SchemaIssue.Leaf): string => {
  if (issue._tag === "MissingKey") return "This field is required"
  const expected = issue._tag === "InvalidType" ? expectedBy(issue.ast) : undefined
  return expected === undefined ? SchemaIssue.defaultLeafHook(issue) : `Expected ${expected}`
}

/** Absent and `null` mean the same to a client, so the message names neither. */
const messageOfUnion = (issue: SchemaIssue.Issue): string =>
  (formatIssue(issue).issues[0]?.message ?? "Not expected").replaceAll(/ \| (?:null|undefined)\b/g, "")

const valueAt = (body: unknown, path: Path): unknown =>
  path.reduce<unknown>((value, key) => Predicate.hasProperty(value, key) ? value[key] : undefined, body)

/** Flattens an issue into messages by field. In a discriminated union the message is about the discriminator, not the item. */
export const collect = (issue: SchemaIssue.Issue, path: Path, errors: FieldErrors, body: unknown): void => {
  if (errors.isFull) return
  switch (issue._tag) {
    case "Pointer":
      // A missing item is reported as an error of the list.
      if (issue.issue._tag === "MissingKey" && typeof issue.path.at(-1) === "number") {
        return errors.add([...path, ...issue.path.slice(0, -1)], "Expected at least one item")
      }
      return collect(issue.issue, [...path, ...issue.path], errors, body)
    case "Encoding":
      return collect(issue.issue, path, errors, body)
    case "Composite":
      return issue.issues.forEach((inner) => collect(inner, path, errors, body))
    case "Filter":
      for (const { message, path: inner = [] } of formatIssue(issue).issues) {
        errors.add([...path, ...inner.map((key) => typeof key === "object" ? key.key : key)], message)
      }
      return
    case "AnyOf": {
      const { discriminator, expected } = issue.ast.annotations ?? {}
      const isDiscriminated = typeof discriminator === "string"
      const [only, ...others] = issue.issues
      const isOneOfMany = !isDiscriminated && typeof expected === "string"
      if (only !== undefined && others.length === 0 && !isOneOfMany) return collect(only, path, errors, body)
      if (isDiscriminated && !Predicate.isObject(valueAt(body, path))) return errors.add(path, "Expected an object")
      const at = isDiscriminated ? [...path, discriminator] : path
      return errors.add(at, typeof expected === "string" ? `Expected ${expected}` : messageOfUnion(issue))
    }
    default:
      return errors.add(path, messageOf(issue))
  }
}
