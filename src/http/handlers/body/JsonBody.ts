/** Decodes a request's JSON body within CONTRACT 2's bounds, and reports every broken field. Runs on any thread. */
import { Effect, Predicate, Schema } from "effect"
import { Digest } from "effect/crypto"
import * as Limits from "../../../domain/Limits.ts"
import { invalid, type ValidationFailed } from "../../contract/Errors.ts"
import { fingerprintOf } from "../Fingerprint.ts"
import { collect, FieldErrors } from "./BodyErrors.ts"

const whole = "body"

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** A byte order mark is dropped; a byte that is not UTF-8 is an error and never replaced. */
const decodeText = (bytes: Uint8Array<ArrayBuffer>) =>
  Effect.try({
    try: () => {
      const text = utf8.decode(bytes)
      // Frees the memory now: what follows takes several times as much.
      bytes.buffer.transfer(0)
      return text
    },
    catch: () => invalid(whole, "The body is not valid UTF-8")
  })

const parse = (text: string) =>
  Effect.try({ try: (): unknown => JSON.parse(text), catch: () => invalid(whole, "The body is not valid JSON") })

export const tooManyValues = invalid(whole, `Must not have more than ${Limits.jsonValues} values`)

const isText = (text: string) => !text.includes("\0") && text.isWellFormed()

/** Finds texts that a database or another system would choke on, and too many values or levels of them. */
const checkValues = (body: object, errors: FieldErrors): void => {
  let count = 0
  const path: Array<PropertyKey> = []
  const check = (value: unknown): void => {
    if (typeof value === "string") {
      if (value.includes("\0")) errors.add(path, "Must not contain a NUL character")
      if (!value.isWellFormed()) errors.add(path, "Must be well-formed Unicode")
      return
    }
    if (typeof value !== "object" || value === null) return
    if (path.length >= Limits.jsonDepth) {
      return errors.add([], `Must not be nested deeper than ${Limits.jsonDepth} levels`)
    }
    const isArray = Array.isArray(value)
    const keys = isArray ? undefined : Object.keys(value)
    const length = keys?.length ?? (value as ReadonlyArray<unknown>).length
    count += length
    for (let index = 0; index < length && count <= Limits.jsonValues && !errors.isFull; index++) {
      const key = keys?.[index] ?? index
      if (typeof key === "string" && !isText(key)) {
        errors.add(path, "Field names must be well-formed and without NUL")
      }
      path.push(key)
      check((value as Readonly<Record<PropertyKey, unknown>>)[key])
      path.pop()
    }
  }
  check(body)
  if (count > Limits.jsonValues) errors.add([], tooManyValues.errors[whole]?.[0] ?? "")
}

const checkLengths = (body: object, maxItems: Readonly<Record<string, number>>, errors: FieldErrors) => {
  for (const [field, maximum] of Object.entries(maxItems)) {
    const value = (body as Readonly<Record<string, unknown>>)[field]
    if (Array.isArray(value) && value.length > maximum) errors.add([field], `Expected at most ${maximum} items`)
  }
}

/** A kind of body: how its value is decoded, and into what. */
export interface BodyKind<A> {
  readonly decode: (value: unknown) => Effect.Effect<A, ValidationFailed>
  /** What an empty body stands for; without it an empty body is an error. */
  readonly whenEmpty: object | undefined
}

interface Options<A, B> {
  readonly whenEmpty?: object
  /** The most items that a field's array may have, checked before any of them is. */
  readonly maxItems?: Readonly<Record<string, number>>
  /** What the use case takes. It crosses threads, so that large parts of it should be one text each. */
  readonly to: (decoded: A) => B
}

export const kind = <A, B>(
  schema: Schema.Decoder<A>,
  { maxItems = {}, to, whenEmpty }: Options<A, B>
): BodyKind<B> => {
  const decode = Schema.decodeUnknownEffect(schema, { errors: "all" })
  return {
    whenEmpty,
    decode: Effect.fnUntraced(function*(value: unknown): Effect.fn.Return<B, ValidationFailed> {
      if (!Predicate.isObject(value)) return yield* invalid(whole, "The body must be a JSON object")
      const errors = new FieldErrors()
      checkLengths(value, maxItems, errors)
      if (!errors.isEmpty) return yield* errors.toError()
      checkValues(value, errors)
      const decoded = yield* decode(value).pipe(
        Effect.mapError((error) => {
          collect(error.issue, [], errors, value)
          return errors.toError()
        })
      )
      if (!errors.isEmpty) return yield* errors.toError()
      return to(decoded)
    })
  }
}

export interface Decoded<A> {
  readonly value: A
  /** See `Fingerprint`; undefined unless the operation was given. */
  readonly fingerprint: string | undefined
}

/** Decodes the bytes of a body and frees them. `operation`, as in `POST /api/tasks`, asks for the request's fingerprint. */
export const decodeBytes = Effect.fnUntraced(function*<A>(
  { decode, whenEmpty }: BodyKind<A>,
  bytes: Uint8Array<ArrayBuffer>,
  operation: string | undefined
): Effect.fn.Return<Decoded<A>, ValidationFailed, Digest.Digest> {
  const isEmpty = bytes.length === 0 && whenEmpty !== undefined
  const parsed = isEmpty ? whenEmpty : yield* Effect.flatMap(decodeText(bytes), parse)
  const value = yield* decode(parsed)
  const fingerprint = operation === undefined
    ? undefined
    : yield* fingerprintOf(yield* Digest.Digest, operation, isEmpty ? undefined : parsed)
  return { value, fingerprint }
})
