/** Reads a request's JSON body within CONTRACT 2's bounds, and tells every broken field at once. */
import { ByteSize, Duration, Effect, Fiber, Predicate, Schema, type SchemaAST, SchemaIssue } from "effect"
import { HttpIncomingMessage, type HttpServerError, type HttpServerRequest } from "effect/http"
import * as Limits from "../../domain/Limits.ts"
import { Timeouts } from "../../services/Timeouts.ts"
import { invalid, PayloadTooLarge, RequestTimeout, UnsupportedMediaType, ValidationFailed } from "../contract/Errors.ts"

type Path = ReadonlyArray<PropertyKey>

type FieldErrors = Record<string, Array<string>>

/** Messages about one body: a hostile one could break a rule a million times. */
const maxErrors = 100

const whole = "body"

const isTooLarge = (error: HttpServerError.HttpServerError) =>
  error.reason._tag === "RequestParseError" && Predicate.isTagged(error.reason.cause, "MaxBytesError")

const tooLarge = new PayloadTooLarge({ message: `The request body is larger than ${Limits.jsonBodyBytes} bytes.` })

const tooSlow = new RequestTimeout({ message: "The request body did not arrive in time." })

const notPlain = new UnsupportedMediaType({ message: "The request body must come without a Content-Encoding." })

/** Nothing is decompressed: a small body could become a huge one. */
export const requirePlain = ({ headers }: HttpServerRequest.HttpServerRequest) => {
  const encoding = headers["content-encoding"]?.toLowerCase()
  return encoding === undefined || encoding === "" || encoding === "identity" ? Effect.void : Effect.fail(notPlain)
}

const readBytes = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
  yield* requirePlain(request)
  const { jsonBody, jsonBytesPerSecond } = yield* Timeouts
  const announced = Number(request.headers["content-length"] ?? Limits.jsonBodyBytes)
  if (announced > Limits.jsonBodyBytes) return yield* tooLarge
  // Apart from this fiber, because a reading that is interrupted closes the connection before it is answered.
  const reading = yield* request.arrayBuffer.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.fromInputUnsafe(Limits.jsonBodyBytes)),
    Effect.mapError((error) => isTooLarge(error) ? tooLarge : invalid(whole, "The body could not be read")),
    Effect.forkDetach({ startImmediately: true })
  )
  return yield* Fiber.join(reading).pipe(
    Effect.timeoutOrElse({
      duration: Duration.sum(jsonBody, Duration.seconds(announced / jsonBytesPerSecond)),
      orElse: () => Effect.fail(tooSlow)
    })
  )
})

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** A byte order mark is dropped; a byte that is not UTF-8 is an error and never replaced. */
const decodeText = (bytes: ArrayBuffer) =>
  Effect.try({ try: () => utf8.decode(bytes), catch: () => invalid(whole, "The body is not valid UTF-8") })

const add = (errors: FieldErrors, path: Path, message: string) => {
  const field = path.map(String).join(".") || whole
  const messages = Object.hasOwn(errors, field) ? errors[field] : undefined
  if (messages === undefined) {
    Object.defineProperty(errors, field, { value: [message], enumerable: true, writable: true })
  } else if (!messages.includes(message)) messages.push(message)
}

const formatIssue = SchemaIssue.makeFormatterStandardSchemaV1()

/** In a client's words: the names of our schemas say nothing to it. */
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

/** Absent and `null` mean the same to a client, so neither is worth a word. */
const messageOfUnion = (issue: SchemaIssue.Issue): string =>
  (formatIssue(issue).issues[0]?.message ?? "Not expected").replaceAll(/ \| (?:null|undefined)\b/g, "")

const valueAt = (body: unknown, path: Path): unknown =>
  path.reduce<unknown>((value, key) => Predicate.hasProperty(value, key) ? value[key] : undefined, body)

/** Flattens an issue into messages by field. A union told apart by a field blames that field, not the whole item. */
const collect = (issue: SchemaIssue.Issue, path: Path, errors: FieldErrors, body: object): void => {
  switch (issue._tag) {
    case "Pointer":
      // An item that is missing is the fault of the list.
      if (issue.issue._tag === "MissingKey" && typeof issue.path.at(-1) === "number") {
        return add(errors, [...path, ...issue.path.slice(0, -1)], "Expected at least one item")
      }
      return collect(issue.issue, [...path, ...issue.path], errors, body)
    case "Encoding":
      return collect(issue.issue, path, errors, body)
    case "Composite":
      return issue.issues.forEach((inner) => collect(inner, path, errors, body))
    case "Filter":
      for (const { message, path: inner = [] } of formatIssue(issue).issues) {
        add(errors, [...path, ...inner.map((key) => typeof key === "object" ? key.key : key)], message)
      }
      return
    case "AnyOf": {
      const { discriminator, expected } = issue.ast.annotations ?? {}
      const isTold = typeof discriminator === "string"
      const [only, ...others] = issue.issues
      const isOneOfMany = !isTold && typeof expected === "string"
      if (only !== undefined && others.length === 0 && !isOneOfMany) return collect(only, path, errors, body)
      if (isTold && !Predicate.isObject(valueAt(body, path))) return add(errors, path, "Expected an object")
      const at = isTold ? [...path, discriminator] : path
      return add(errors, at, typeof expected === "string" ? `Expected ${expected}` : messageOfUnion(issue))
    }
    default:
      return add(errors, path, messageOf(issue))
  }
}

export const validationFailed = (errors: FieldErrors): ValidationFailed => {
  const [field, messages] = Object.entries(errors)[0] ?? [whole, ["is invalid"]]
  const others = Object.keys(errors).length - 1
  const more = others > 0 ? ` (and ${others} more ${others === 1 ? "error" : "errors"})` : ""
  return new ValidationFailed({ message: `${field}: ${messages[0]}${more}`, errors })
}

/** Texts that a database or another system would choke on, and nesting that is too deep. `path` is used as a stack. */
const checkText = (value: unknown, path: Array<PropertyKey>, errors: FieldErrors): void => {
  if (Object.keys(errors).length >= maxErrors) return
  if (typeof value === "string") {
    if (value.includes("\0")) add(errors, path, "Must not contain a NUL character")
    if (!value.isWellFormed()) add(errors, path, "Must be well-formed Unicode")
    return
  }
  if (typeof value !== "object" || value === null) return
  if (path.length >= Limits.jsonDepth) {
    return add(errors, [], `Must not be nested deeper than ${Limits.jsonDepth} levels`)
  }
  const isArray = Array.isArray(value)
  for (const [key, item] of Object.entries(value)) {
    if (!isArray && (key.includes("\0") || !key.isWellFormed())) {
      add(errors, path, "Field names must be well-formed and without NUL")
    }
    path.push(key)
    checkText(item, path, errors)
    path.pop()
  }
}

const parse = (text: string) =>
  Effect.try({ try: (): unknown => JSON.parse(text), catch: () => invalid(whole, "The body is not valid JSON") })

interface ReaderOptions {
  /** What an empty body stands for; without it an empty body is an error. */
  readonly whenEmpty?: object
  /** The most items that a field's array may have, looked at before any of them is. */
  readonly maxItems?: Readonly<Record<string, number>>
}

const checkLengths = (body: object, maxItems: Readonly<Record<string, number>>, errors: FieldErrors) => {
  for (const [field, maximum] of Object.entries(maxItems)) {
    const value = (body as Readonly<Record<string, unknown>>)[field]
    if (Array.isArray(value) && value.length > maximum) add(errors, [field], `Expected at most ${maximum} items`)
  }
}

/** A decoder of what came as JSON, within CONTRACT 2's bounds. */
export const decoder = <A>(schema: Schema.Decoder<A>, { maxItems = {} }: ReaderOptions = {}) => {
  const decode = Schema.decodeUnknownEffect(schema, { errors: "all" })
  return Effect.fnUntraced(function*(value: unknown): Effect.fn.Return<A, ValidationFailed> {
    if (!Predicate.isObject(value)) return yield* invalid(whole, "The body must be a JSON object")
    const errors: FieldErrors = {}
    checkLengths(value, maxItems, errors)
    if (Object.keys(errors).length > 0) return yield* validationFailed(errors)
    checkText(value, [], errors)
    const decoded = yield* decode(value).pipe(
      Effect.mapError((error) => {
        collect(error.issue, [], errors, value)
        return validationFailed(errors)
      })
    )
    if (Object.keys(errors).length > 0) return yield* validationFailed(errors)
    return decoded
  })
}

/** A reader of bodies of one schema. */
export const reader = <A>(schema: Schema.Decoder<A>, { whenEmpty, ...options }: ReaderOptions = {}) => {
  const decode = decoder(schema, options)
  return Effect.fnUntraced(function*(
    request: HttpServerRequest.HttpServerRequest
  ): Effect.fn.Return<A, PayloadTooLarge | RequestTimeout | UnsupportedMediaType | ValidationFailed> {
    const text = yield* decodeText(yield* readBytes(request))
    return yield* decode(text === "" && whenEmpty !== undefined ? whenEmpty : yield* parse(text))
  })
}
