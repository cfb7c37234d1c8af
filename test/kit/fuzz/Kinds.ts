/** Kinds of fields, each with values that break one rule and valid values at its bounds. */
import * as Limits from "../../../src/domain/Limits.ts"
import { dotted, nested, type Path, raw } from "./Json.ts"

interface Value {
  readonly at: (path: Path) => unknown
  /** The path of the error, when it is not the field itself. */
  readonly blamed?: (path: Path) => string
}

export interface Kind {
  readonly broken: Readonly<Record<string, Value>>
  readonly valid: Readonly<Record<string, Value>>
}

const constants = (values: Readonly<Record<string, unknown>>): Record<string, Value> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { at: () => value }]))

const kind = (
  broken: Readonly<Record<string, unknown>>,
  valid: Readonly<Record<string, unknown>> = {},
  ...more: ReadonlyArray<Kind>
): Kind => ({
  broken: Object.assign(constants(broken), ...more.map(({ broken }) => broken)),
  valid: Object.assign(constants(valid), ...more.map(({ valid }) => valid))
})

const integer = (maximum: number) =>
  kind({
    zero: 0,
    "minus one": -1,
    "minus zero": raw("-0"),
    "one more than the most": raw(`${BigInt(maximum) + 1n}`),
    "a fraction": 1.5,
    "2^64": raw("18446744073709551616"),
    "a huge number": 1e308,
    "beyond all numbers": raw("1e400"),
    "a tiny number": raw("1e-400"),
    "a number as text": "1",
    true: true,
    "an array": [1],
    "an object": { value: 1 }
  }, { one: 1, "one with an exponent": raw("10e-1"), "one with a fraction": raw("1.0"), "the most": maximum })

export const id = integer(Number.MAX_SAFE_INTEGER)
const { "a tiny number": _, "minus one": __, "minus zero": ___, zero: ____, ...unsafe } = id.broken
/** An unknown id means the default. */
export const anyId: Kind = {
  broken: unsafe,
  valid: { ...id.valid, ...constants({ zero: 0, "minus one": -1, "the least": Number.MIN_SAFE_INTEGER }) }
}
export const seconds = integer(Limits.maxExecutionTime)
const positive = integer(Limits.priority.ofUsers)
const { "a tiny number": _tiny, "minus zero": _minusZero, zero: _zero, ...notPriority } = positive.broken
export const priority: Kind = { broken: notPriority, valid: { ...positive.valid, ...constants({ zero: 0 }) } }

const notText = { "a number": 1, true: true, "an array": ["x"], "an object": { toString: "x" } }
const notObject = { "a number": 1, true: true, text: "{}", "an array": [] }
const notArray = { "a number": 1, true: true, text: "[]", "an object": { length: 0 } }

const unusual = {
  NUL: "a\0b",
  "a lone high surrogate": "a\ud800",
  "a lone low surrogate": "\udc00b",
  "surrogates the wrong way round": "\ude00\ud83d"
}

const text = kind({ ...unusual, ...notText }, {
  "an empty text": "",
  "all kinds of characters": "\u0001\u007f\u0085\u2028\ufeff\uffff é 😀 '\"\\ $1 %00 </script>"
})

const nonEmpty = kind({ "an empty text": "" }, { "an empty text": "x" })
const atMost = (maximum: number) =>
  kind({ "one character too long": "x".repeat(maximum + 1), "one emoji too long": "😀".repeat(maximum + 1) }, {
    "as long as can be": "x".repeat(maximum),
    "as many emoji as can be": "😀".repeat(maximum)
  })

export const anyText = text
/** A text that the gateway does not read. */
export const passedText = kind(notText, { ...unusual, "an empty text": "" })
export const name = kind({}, {}, text, nonEmpty)
/** A text of at most `maximum` characters. */
export const textOf = (maximum: number) => kind({}, {}, text, atMost(maximum))
/** A text, or an integer. */
const { "a number": _number, ...noEventId } = kind({}, {}, text, nonEmpty, atMost(255)).broken
export const eventId: Kind = {
  broken: { ...noEventId, ...constants({ "a fraction": 1.5, "2^64": raw("18446744073709551616") }) },
  valid: {
    ...kind({}, {}, nonEmpty, atMost(255)).valid,
    ...constants({ "a number": 1, "the least": Number.MIN_SAFE_INTEGER })
  }
}

const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`key ${n}`, "x"]))
const longKey = "k".repeat(Limits.metadataKeyLength)

export const metadata = kind(
  { "a number": 1, true: true, text: "{}", "an array": [], "a pair too many": pairs(Limits.metadataPairs + 1) },
  {
    "no pairs": {},
    "as many pairs as can be": pairs(Limits.metadataPairs),
    "a key as long as can be": { [longKey]: "x", ["😀".repeat(Limits.metadataKeyLength)]: "x" },
    "names of properties": JSON.parse(`{"__proto__": "x", "constructor": "x", "a.b": "x"}`)
  },
  {
    broken: {
      "NUL in a key": { at: () => ({ "a\0": "x" }) },
      "a lone surrogate in a key": { at: () => ({ "\ud800": "x" }) },
      "an empty key": { at: () => ({ "": "x" }), blamed: (path) => `${dotted(path)}.` },
      "a key too long": { at: () => ({ [`${longKey}k`]: "x" }), blamed: (path) => `${dotted(path)}.${longKey}k` }
    },
    valid: {}
  }
)

const host = "https://example.org/"
export const url = kind(
  {
    NUL: `${host}\0`,
    "a lone surrogate": `${host}\ud800`,
    "an empty text": "",
    "no scheme": "example.org/hook",
    "a path": "/hook",
    "another scheme": "ftp://example.org",
    "a script": "javascript:alert(1)",
    "a file": "file:///etc/passwd",
    "no host": "http://",
    "no host but a path": "http:///hook",
    "no slashes": "http:example.org",
    "a broken host": "http://[::1",
    "a broken port": "http://example.org:65536/",
    "a blank in the host": "http://exam ple.org/",
    "a blank in front": ` ${host}`,
    "a blank at the end": `${host} `,
    "a line break": `${host}\r\nX-Injected: 1`,
    "a tab in the host": "http://exam\tple.org/",
    "one character too long": host + "x".repeat(Limits.callbackUrlLength - host.length + 1),
    ...notText
  },
  { "as long as can be": host + "x".repeat(Limits.callbackUrlLength - host.length), "only a host": "http://localhost" }
)

export const toolName = kind({
  NUL: "a\0",
  "a lone surrogate": "\ud800",
  "an empty text": "",
  "a blank": "a b",
  "a dot": "a.b",
  "a letter beyond ASCII": "ä",
  "a line break at the end": "a\n",
  "one character too long": "x".repeat(65),
  ...notText
}, { "as long as can be": "x".repeat(64), "the name of a property": "__proto__", "only dashes": "-_-" })

const literals = (...values: ReadonlyArray<string>) =>
  kind({
    "another word": "other",
    "an empty text": "",
    "the name of a property": "constructor",
    "a blank at the end": `${values[0]} `,
    "capital letters": values[0]!.toUpperCase(),
    ...notText
  }, Object.fromEntries(values.map((value) => [value, value])))

export const inputType = { broken: literals("text").broken, valid: {} }
export const eventType = { broken: literals("processing").broken, valid: {} }
export const toolType = literals("function")
export const role = literals("user", "assistant", "system")
export const failureCode = literals("assistant_not_found", "payment_required", "token_revoked", "internal")

export const boolean = kind(
  { zero: 0, one: 1, text: "true", "an empty text": "", "an array": [], "an object": {} },
  { true: true, false: false }
)

export const duration = kind(
  { "minus one": -1, "beyond all numbers": raw("1e400"), text: "3", true: true, "an array": [], "an object": {} },
  { zero: 0, "a fraction": 0.125, "a huge number": 1e308 }
)

export const object = kind(notObject)

const levelsBelow = (path: Path, levels: number) => nested(levels - path.length)

/** Objects and arrays that the gateway passes on unchanged. `wrap` puts them into a value that the field accepts. */
const opaque = (wrap: (value: unknown) => unknown, inside: Path): Kind => {
  const within = (value: unknown): Value => ({ at: () => wrap({ x: [value] }) })
  return {
    broken: {
      "1,001 levels": {
        at: (path) => wrap({ x: levelsBelow([...path, ...inside, "x"], 1001) }),
        blamed: () => "body"
      },
      "100,000 levels": { at: () => wrap({ x: raw("[".repeat(100_000) + "]".repeat(100_000)) }), blamed: () => "body" },
      "100,000 objects in one another": {
        at: () => wrap({ x: raw(`{"a":`.repeat(100_000) + "1" + "}".repeat(100_000)) }),
        blamed: () => "body"
      }
    },
    valid: {
      "1,000 levels": { at: (path) => wrap({ x: levelsBelow([...path, ...inside, "x"], 1000) }) },
      "NUL deep inside": within("\0"),
      "a lone surrogate deep inside": within("\udfff"),
      "NUL in a name deep inside": within({ "a\0b": 1 }),
      "a lone surrogate in a name": { at: () => wrap({ "a\ud800": 1 }) },
      "names of properties": {
        at: () => wrap(JSON.parse(`{"__proto__": {"polluted": 1}, "constructor": {"prototype": 1}, "toString": null}`))
      },
      "an empty name": { at: () => wrap({ "": { "": "" } }) },
      "numbers of all sizes": within(raw("[1e308, 1e-400, 123456789012345678901234567890, 0.1, -0]")),
      "a name twice": { at: () => wrap(raw(`{"a": 1, "a": 2}`)) }
    }
  }
}

export const opaqueObject = kind(notObject, {}, opaque((value) => value, []))
export const opaqueValue = opaque((value) => value, [])
export const anyJson = kind({}, { zero: 0, text: "x", false: false, "an array": [], "an object": {} }, opaqueValue)
export const objects = kind({ ...notArray, "an item that is none": [{}, 1] }, {}, opaque((value) => [{}, value], [1]))
export const content = kind(
  { "a number": 1, true: true, "an object": {}, "an item that is none": [{}, "x"] },
  { text: "x", "no parts": [] },
  opaque((value) => [{}, value], [1])
)

/** `item` is a valid item; `unlike` makes the nth of items that must differ. */
export const list = (maximum: number, item: unknown, isEmptyValid: boolean, unlike?: (n: number) => unknown): Kind => {
  const items = (length: number) => Array.from({ length }, (_, n) => unlike?.(n) ?? item)
  return kind(
    { ...notArray, "one item too many": items(maximum + 1), ...(isEmptyValid ? {} : { "no items": [] }) },
    { "as many items as can be": items(maximum), ...(isEmptyValid ? { "no items": [] } : {}) }
  )
}

/** An item of a list of objects. */
export const item = kind(notObject)
