/** JSON that the gateway stores and returns without reading it: turns, and the state of the core. */
import { Predicate, Schema, SchemaTransformation } from "effect"

/** Opaque JSON as text, as it is stored and sent. */
export const OpaqueJson = Schema.String.pipe(Schema.brand("OpaqueJson"))
export type OpaqueJson = typeof OpaqueJson.Type

/** Serializes a value. Fields that are undefined are left out. */
export const fromValue = (value: object): OpaqueJson => OpaqueJson.make(JSON.stringify(value))

export type JsonObject = { readonly [key: string]: Schema.Json }

const AnyObject = Schema.Record(Schema.String, Schema.Json)

/** An array of JSON objects, kept by reference. An invalid array is one error, so that its length does not matter. */
export const JsonObjects = Schema.declare(
  (value): value is ReadonlyArray<JsonObject> => Array.isArray(value) && value.every(Predicate.isObject),
  {
    identifier: "JsonObjects",
    expected: "an array of objects",
    toCodecJson: () => undefined,
    toCodecArbitrary: () =>
      Schema.link<ReadonlyArray<JsonObject>>()(Schema.Array(AnyObject), SchemaTransformation.passthrough())
  }
)

/** A JSON object, kept by reference so that every key survives, `__proto__` included. `A` is its expected shape, which is not checked. */
export const opaqueObject = <A extends object>(identifier: string) =>
  Schema.declare(
    (value): value is A => Predicate.isObject(value),
    {
      identifier,
      description: "Any JSON object.",
      expected: "an object",
      toCodecJson: () => undefined,
      toCodecArbitrary: () => Schema.link<A>()(AnyObject, SchemaTransformation.passthrough({ strict: false }))
    }
  )

export const JsonObject = opaqueObject<JsonObject>("JsonObject")

/** Any JSON value, taken by reference and not looked into: it has been parsed from JSON text. */
export const JsonValue = Schema.declare(
  (value): value is Schema.Json => value !== undefined,
  {
    expected: "any JSON value",
    toCodecJson: () => undefined,
    toCodecArbitrary: () => Schema.link<Schema.Json>()(Schema.Json, SchemaTransformation.passthrough())
  }
)
