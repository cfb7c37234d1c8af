/** Decodes a request's JSON body within the bounds of `domain/Limits`, and reports every invalid field. Runs on any thread. */
import { Effect, Function, Predicate, Result, Schema } from "effect"
import type { Digest } from "effect/crypto"
import { isStorable } from "../../../domain/Fields.ts"
import * as Limits from "../../../domain/Limits.ts"
import { isJsonObject, type JsonObject } from "../../../domain/OpaqueJson.ts"
import { invalid, type ValidationFailed } from "../../contract/Errors.ts"
import { fingerprintOf } from "../Fingerprint.ts"
import { collect, FieldErrors } from "./BodyErrors.ts"

const whole = "body"

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** A byte order mark is dropped. Invalid UTF-8 is an error and is never replaced. */
const decodeText = (bytes: Uint8Array) =>
  Result.try({ try: () => utf8.decode(bytes), catch: () => invalid(whole, "The body is not valid UTF-8") })

const parse = (text: string) =>
  Result.try({ try: (): unknown => JSON.parse(text), catch: () => invalid(whole, "The body is not valid JSON") })

const valuesRule = `Must not have more than ${Limits.jsonValues} values`
export const tooManyValues = invalid(whole, valuesRule)

/** Finds texts that Postgres or another system cannot store, and too many values or levels. */
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
    const keys = Array.isArray(value) ? undefined : Object.keys(value)
    const values: ReadonlyArray<unknown> = Array.isArray(value) ? value : Object.values(value)
    count += values.length
    for (let index = 0; index < values.length && count <= Limits.jsonValues && !errors.isFull; index++) {
      const key = keys?.[index] ?? index
      if (typeof key === "string" && !isStorable(key)) {
        errors.add(path, "Field names must be well-formed and without NUL")
      }
      path.push(key)
      check(values[index])
      path.pop()
    }
  }
  check(body)
  if (count > Limits.jsonValues) errors.add([], valuesRule)
}

/** A JSON object inside a text of a body; undefined if it is none, or exceeds the bounds of a body. */
export const parseObject = (text: string): JsonObject | undefined => {
  const errors = new FieldErrors()
  try {
    const value: unknown = JSON.parse(text)
    if (!isJsonObject(value)) return undefined
    checkValues(value, errors)
    return errors.isEmpty ? value : undefined
  } catch {
    return undefined
  }
}

const checkLengths = (
  body: { readonly [field: PropertyKey]: unknown },
  maxItems: ReadonlyArray<readonly [field: string, maximum: number]>,
  errors: FieldErrors
) => {
  for (const [field, maximum] of maxItems) {
    const value = body[field]
    if (Array.isArray(value) && value.length > maximum) errors.add([field], `Expected at most ${maximum} items`)
  }
}

/** Decodes the value of one kind of body. */
export interface BodyKind<A> {
  /** The schema that the contract declares. */
  readonly schema: Schema.Top
  readonly decode: (value: unknown) => Effect.Effect<A, ValidationFailed>
  /** The value of an empty body; undefined makes an empty body an error. */
  readonly whenEmpty: object | undefined
}

interface Options<A, B> {
  readonly whenEmpty?: object
  /** Maximum items of a field's array, checked before the items are. */
  readonly maxItems?: Readonly<Record<string, number>>
  /** Converts to the argument of the use case. It crosses threads, so each large part should be one `OpaqueJson` or text. */
  readonly to: (decoded: A) => B
}

export const kind = <A, B>(
  schema: Schema.Decoder<A>,
  { maxItems = {}, to, whenEmpty }: Options<A, B>
): BodyKind<B> => {
  const decode = Schema.decodeUnknownResult(schema, { errors: "all" })
  const lengths = Object.entries(maxItems)
  return {
    schema,
    whenEmpty,
    decode: (value) => {
      if (!Predicate.isObject(value)) return Effect.fail(invalid(whole, "The body must be a JSON object"))
      const errors = new FieldErrors()
      checkLengths(value, lengths, errors)
      if (!errors.isEmpty) return Effect.fail(errors.toError())
      checkValues(value, errors)
      const decoded = decode(value)
      if (Result.isSuccess(decoded) && errors.isEmpty) return Effect.succeed(to(decoded.success))
      if (Result.isFailure(decoded)) collect(decoded.failure.issue, [], errors, value)
      return Effect.fail(errors.toError())
    }
  }
}

export interface Decoded<A> {
  readonly value: A
  /** See `Fingerprint`; undefined without an operation. */
  readonly fingerprint: string | undefined
}

/**
 * Decodes the bytes of a body. With an `operation`, as in `POST /api/tasks`, also returns the fingerprint. Calls `free` when it needs the
 * bytes no more: parsing takes several times their memory.
 */
export const decodeBytes = <A>(
  digest: Digest.Digest["Service"],
  { decode, whenEmpty }: BodyKind<A>,
  bytes: Uint8Array,
  operation: string | undefined,
  free: () => void = Function.constVoid
): Effect.Effect<Decoded<A>, ValidationFailed> => {
  const isEmpty = bytes.length === 0 && whenEmpty !== undefined
  const text = isEmpty ? undefined : decodeText(bytes)
  free()
  const parsed = text === undefined ? Result.succeed(whenEmpty) : Result.flatMap(text, parse)
  if (Result.isFailure(parsed)) return Effect.fail(parsed.failure)
  return Effect.flatMap(decode(parsed.success), (value): Effect.Effect<Decoded<A>> =>
    operation === undefined
      ? Effect.succeed({ value, fingerprint: undefined })
      : Effect.map(
        fingerprintOf(digest, operation, isEmpty ? undefined : parsed.success),
        (fingerprint) => ({ value, fingerprint })
      ))
}
