/** Decodes a request's JSON body within the bounds of `domain/Limits`, and reports every invalid field. */
import { Effect, Predicate, Result, Schema } from "effect"
import { isStorable } from "../../../domain/Fields.ts"
import * as RawJson from "../../../domain/json/RawJson.ts"
import { type Scanner, scanWithPauses } from "../../../domain/json/Scanner.ts"
import { type Found, type Shape, shapeOf } from "../../../domain/json/Shape.ts"
import { describe, type JsonProblem } from "../../../domain/json/tables.ts"
import * as Limits from "../../../domain/Limits.ts"
import { invalid, type ValidationFailed } from "../../contract/Errors.ts"
import { collect, FieldErrors } from "./BodyErrors.ts"

const whole = "body"

const tooDeep = invalid(whole, `Must not be nested deeper than ${Limits.jsonDepth} levels`)

const notJson = (problem: JsonProblem): ValidationFailed =>
  problem.reason.endsWith("levels") ? tooDeep : invalid(whole, `The body is not valid JSON: ${describe(problem)}`)

/** Finds texts that Postgres or another system cannot store. Raw JSON is only passed on. `within` is the field that has the body. */
export const checkTexts = (body: object, errors: FieldErrors, within: ReadonlyArray<string> = []): void => {
  const path: Array<PropertyKey> = [...within]
  const enter = (key: PropertyKey, member: unknown): void => {
    path.push(key)
    check(member)
    path.pop()
  }
  const check = (value: unknown): void => {
    if (errors.isFull || value instanceof RawJson.RawJson) return
    if (typeof value === "string") {
      if (value.includes("\0")) errors.add(path, "Must not contain a NUL character")
      if (!value.isWellFormed()) errors.add(path, "Must be well-formed Unicode")
    } else if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index++) enter(index, value[index])
    } else if (Predicate.isObject(value)) {
      for (const key of Object.keys(value)) {
        if (!isStorable(key)) errors.add(path, "Field names must be well-formed and without NUL")
        enter(key, value[key])
      }
    }
  }
  check(body)
}

/** The fields of a whole document, or the reason why it is refused. */
const foundIn = ({ deepest, problem, root }: Scanner): Effect.Effect<Found, ValidationFailed> => {
  if (problem !== undefined) return Effect.fail(notJson(problem))
  if (deepest > Limits.jsonDepth) return Effect.fail(tooDeep)
  return root === undefined ? Effect.die("a valid document has a value") : Effect.succeed(root)
}

/** Decodes the value of one kind of body. */
export interface BodyKind<A> {
  /** The schema that the contract declares. */
  readonly schema: Schema.Top
  readonly shape: Shape
  /** A longer body is refused. */
  readonly maxBytes: number
  /** Decodes a document whose fields have been found. */
  readonly decode: (found: Found, bytes: Uint8Array) => Effect.Effect<A, ValidationFailed>
  /** Decodes an empty body; undefined makes an empty body an error. */
  readonly whenEmpty: Effect.Effect<A, ValidationFailed> | undefined
}

interface Options<A, B> {
  readonly whenEmpty?: A
  readonly shape?: (shape: Shape) => Shape
  readonly maxBytes?: number
  /** Converts to the argument of the use case. `body` is absent for an empty one. It has more than the schema if the shape has. */
  readonly to: (decoded: A, body?: { readonly found: Found; readonly bytes: Uint8Array }) => B
}

/** Items of a list that are decoded without a pause: a few milliseconds, also for the first body of a process. */
const sliceItems = 1000

type Decode<A> = (value: unknown) => Result.Result<A, Schema.SchemaError>
type Fields = Readonly<Record<string, unknown>>

/** Only a body that is refused is decoded for all of its errors: up to the first one takes half of the time, and a third of the memory. */
const decoderOf = <A>(schema: Schema.Decoder<A>): Decode<A> => {
  const decode = Schema.decodeUnknownResult(schema)
  return (value) => {
    const decoded = decode(value)
    return Result.isSuccess(decoded) ? decoded : decode(value, { errors: "all" })
  }
}

const report = (error: Schema.SchemaError, errors: FieldErrors, value: unknown) =>
  collect(error.issue, [], errors, value)

/** Decodes a body by a slice of one of its lists at a time, beside one item of the others. */
const decodeInSlices = Effect.fnUntraced(function*<A>(
  decode: Decode<A>,
  body: Fields,
  lists: Lists,
  errors: FieldErrors
) {
  const rest: Fields = { ...body, ...Object.fromEntries(lists.map(([name, items]) => [name, items.slice(0, 1)])) }
  const decoded: Record<string, Array<unknown>> = {}
  let last: A | undefined
  yield* Effect.yieldNow
  for (const [name, items] of lists) {
    for (let from = 0; from < items.length && !errors.isFull; from += sliceItems) {
      const part = { ...rest, [name]: items.slice(from, from + sliceItems) }
      const result = decode(part)
      if (Result.isSuccess(result)) {
        last = result.success
        // Undefined for a field that the schema does not have.
        const known = (result.success as Readonly<Record<string, ReadonlyArray<unknown> | undefined>>)[name]
        if (known !== undefined) (decoded[name] ??= []).push(...known)
      } else {
        errors.offset = { list: name, items: from }
        report(result.failure, errors, part)
        errors.offset = undefined
      }
      yield* Effect.yieldNow
    }
  }
  return { ...last, ...decoded } as A
})

type Lists = ReadonlyArray<readonly [name: string, items: ReadonlyArray<unknown>]>

/** The lists of a body that are decoded in slices; undefined without any. */
const longListsOf = (body: Fields): Lists | undefined => {
  for (const name in body) {
    const value = body[name]
    if (Array.isArray(value) && value.length > sliceItems) {
      return Object.entries(body).filter((field): field is [string, Array<unknown>] =>
        Array.isArray(field[1]) && field[1].length > sliceItems
      )
    }
  }
  return undefined
}

export const kind = <A, B>(
  schema: Schema.Decoder<A>,
  { maxBytes = Limits.jsonBodyBytes, shape = (one) => one, to, whenEmpty }: Options<A, B>
): BodyKind<B> => {
  const decode = decoderOf(schema)
  return {
    schema,
    shape: shape(shapeOf(schema)),
    maxBytes,
    whenEmpty: whenEmpty === undefined ? undefined : Effect.sync(() => to(whenEmpty)),
    decode: (found, bytes) =>
      Effect.suspend(() => {
        const { excess, value } = RawJson.decodable(found, bytes)
        if (!Predicate.isObject(value) || value instanceof RawJson.RawJson) {
          return Effect.fail(invalid(whole, "The body must be a JSON object"))
        }
        const errors = new FieldErrors()
        errors.addExcess(excess)
        if (!errors.isEmpty) return Effect.fail(errors.toError())
        checkTexts(value, errors)
        const lists = longListsOf(value as Fields)
        if (lists !== undefined) {
          return Effect.flatMap(
            decodeInSlices(decode, value as Fields, lists, errors),
            (decoded) => errors.isEmpty ? Effect.succeed(to(decoded, { found, bytes })) : Effect.fail(errors.toError())
          )
        }
        const decoded = decode(value)
        if (Result.isSuccess(decoded) && errors.isEmpty) return Effect.succeed(to(decoded.success, { found, bytes }))
        if (Result.isFailure(decoded)) report(decoded.failure, errors, value)
        return Effect.fail(errors.toError())
      })
  }
}

/** Decodes a document that has been scanned to its end. */
export const decodeScanned = <A>(
  kind: BodyKind<A>,
  scanner: Scanner,
  bytes: Uint8Array
): Effect.Effect<A, ValidationFailed> => Effect.flatMap(foundIn(scanner), (found) => kind.decode(found, bytes))

/** The value of a whole document or why it has none, with what was found in it. */
export const attemptBytes = Effect.fnUntraced(function*<A>(kind: BodyKind<A>, bytes: Uint8Array) {
  const scanner = yield* scanWithPauses(bytes, kind.shape, Limits.scannedDepth)
  const decoded = Effect.flatMap(foundIn(scanner), (found) =>
    bytes.length > kind.maxBytes
      ? Effect.fail(invalid(whole, `Must not be larger than ${kind.maxBytes} bytes`))
      : kind.decode(found, bytes))
  return { outcome: yield* Effect.result(decoded), found: scanner.found }
})

/** Decodes a whole document. */
export const decodeBytes = <A>(kind: BodyKind<A>, bytes: Uint8Array): Effect.Effect<A, ValidationFailed> =>
  Effect.flatMap(attemptBytes(kind, bytes), ({ outcome }) => Effect.fromResult(outcome))

/** UTF-8 of a value that is raw, or that callers in this process have as an object: then digits beyond 2^53 are lost already. */
export const bytesOf = (value: unknown): Uint8Array =>
  value instanceof RawJson.RawJson ? value.bytes : Buffer.from(JSON.stringify(value ?? null))
