/** Bodies that are not one JSON object, and unusual spellings of one. */
import { Arbitrary } from "effect"
import { answered, type Attempt, blaming, oneOf, type Rule } from "./Attempt.ts"
import { write } from "./Json.ts"
import { createBodies } from "./ValidBodies.ts"

const broken: Readonly<Record<string, (json: string) => string | Uint8Array>> = {
  "blanks only": () => " \n",
  "an array": (json) => `[${json}]`,
  "a text": (json) => JSON.stringify(json),
  "a number": () => "1",
  "a huge number": () => "1e400",
  null: () => "null",
  true: () => "true",
  "a cut end": (json) => json.slice(0, -1),
  "a cut beginning": (json) => json.slice(1),
  "a trailing comma": (json) => `${json.slice(0, -1)},}`,
  "a comma too many": (json) => `{,${json.slice(1)}`,
  "two bodies": (json) => json + json,
  "single quotes": (json) => json.replaceAll(`"`, "'"),
  "a comment": (json) => `/* x */${json}`,
  NaN: (json) => `{"a":NaN,${json.slice(1)}`,
  undefined: (json) => `{"a":undefined,${json.slice(1)}`,
  "a number with a leading zero": (json) => `{"a":01,${json.slice(1)}`,
  "a line break in a text": (json) => `{"a":"\n",${json.slice(1)}`,
  "NUL in a text": (json) => `{"a":"\0",${json.slice(1)}`,
  "NUL after the end": (json) => `${json}\0`,
  "a broken escape": (json) => `{"a":"\\x",${json.slice(1)}`,
  "a form": () => "assistant_id=1&input=x",
  "an XML document": () => "<task/>",
  "100,000 open arrays": () => "[".repeat(100_000),
  "100,000 arrays": () => "[".repeat(100_000) + "]".repeat(100_000),
  "UTF-16": (json) => Buffer.from(json, "utf16le"),
  "a byte that is not UTF-8": (json) =>
    Buffer.concat([Buffer.from(`{"a":"`), Buffer.of(0xff), Buffer.from(`",${json.slice(1)}`)]),
  "a surrogate in UTF-8": (json) =>
    Buffer.concat([Buffer.from(`{"a":"`), Buffer.of(0xed, 0xa0, 0x80), Buffer.from(`",${json.slice(1)}`)]),
  "bytes at random": () => Buffer.from("ffd8ffe000104a464946", "hex")
}

const odd: Readonly<Record<string, (json: string) => string>> = {
  // RFC 8259, 8.1: a reader may ignore it.
  "a byte order mark": (json) => `\ufeff${json}`,
  "blanks around": (json) => `\r\n\t ${json} \n`,
  "names twice, of which the last counts": (json) =>
    `{"assistant_id":null,"input":0,"reason":0,"results":0,${json.slice(1)}`,
  "escapes for plain letters": (json) => json.replaceAll(`"input"`, `"\\u0069nput"`)
}

const doors: ReadonlyArray<Omit<Attempt, "body" | "expected">> = [
  { target: "none", caller: "owner", method: "POST", path: "/api/tasks" },
  { target: "interrupted", caller: "owner", method: "POST", path: "/api/tasks/{uuid}/tool-results" },
  { target: "interrupted", caller: "owner", method: "POST", path: "/api/tasks/{uuid}/cancel" },
  { target: "ended", caller: "owner", method: "POST", path: "/api/tasks/{uuid}/rerun" },
  { target: "processing", caller: "core", method: "POST", path: "/internal/core/events" }
]

const written = Arbitrary.map(createBodies, write)

export const textRules: ReadonlyArray<Rule> = [
  ...Object.entries(broken).map(([name, change]): Rule => ({
    group: "not one JSON object",
    name,
    attempts: Arbitrary.all({ door: oneOf(doors), json: written }).pipe(
      Arbitrary.map(({ door, json }) => ({ ...door, body: change(json), expected: blaming("body") }))
    )
  })),
  {
    group: "not one JSON object",
    name: "nothing",
    attempts: Arbitrary.map(oneOf(doors.filter(({ path }) => !/(cancel|rerun)$/.test(path))), (door) => ({
      ...door,
      expected: blaming("body")
    }))
  },
  ...Object.entries(odd).map(([name, change]): Rule => ({
    group: "JSON in an odd way",
    name,
    weight: 3,
    attempts: Arbitrary.map(written, (json) => ({
      ...doors[0]!,
      caller: "newcomer" as const,
      body: change(json),
      expected: answered(201)
    }))
  }))
]
