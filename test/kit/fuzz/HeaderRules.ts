/** Headers that the service interprets, and invalid tokens. */
import { Arbitrary, Schema } from "effect"
import { operations } from "../operations.ts"
import { answered, blaming, oneOf, type Rule } from "./Attempt.ts"
import { each, get, post, small, task } from "./Requests.ts"

/** Any text that Node's client accepts in a header. */
const headerText = Arbitrary.map(
  Arbitrary.schema(Schema.String),
  (text) => text.replaceAll(/[^\t\x20-\x7e\xa0-\xff]/gu, "").trim()
)

const otherHeaders =
  "X-Request-Id Accept Content-Type Content-Encoding Origin Traceparent B3 X-Forwarded-For Cookie Range".split(" ")

const meaningRules: ReadonlyArray<Rule> = [
  ...each(
    "header broken",
    ["", "a b", "é", "tab\there", "x".repeat(256), "ÿ"],
    (key) =>
      operations.filter(({ takesIdempotencyKey }) => takesIdempotencyKey).map(({ body, method, path }) => ({
        ...post,
        method,
        path,
        body: JSON.stringify(body),
        headers: { "Idempotency-Key": key },
        expected: blaming("Idempotency-Key")
      }))
  ),
  ...each("header broken", ["two keys"], () => ({
    ...get,
    method: "POST",
    path: "/api/tasks",
    headers: { "Idempotency-Key": ["a", "b"] },
    body: small,
    expected: blaming("Idempotency-Key")
  })),
  {
    group: "header valid",
    name: "Idempotency-Key",
    weight: 10,
    attempts: Arbitrary.map(headerText, (text) => ({
      ...get,
      caller: "newcomer" as const,
      method: "POST",
      path: "/api/tasks",
      headers: { "Idempotency-Key": text.replaceAll(/[^\x21-\x7e]/g, "").padEnd(1, "~").slice(0, 255) },
      body: small,
      expected: answered(201)
    }))
  },
  ...each("header broken", ["x", "-1", "+1", "1.5", "1e3", "0x1", "1 2", "1".repeat(10), "²", "1,2", `"1"`], (id) => ({
    ...get,
    path: `${task}/events`,
    headers: { "Last-Event-ID": id },
    expected: blaming("Last-Event-ID")
  })),
  ...each("header valid", ["0", "1", "007", "999999999"], (id) => ({
    ...get,
    path: `${task}/events`,
    headers: { "Last-Event-ID": id },
    expected: answered(200, 204)
  })),
  {
    group: "header valid",
    name: "If-None-Match",
    weight: 10,
    attempts: Arbitrary.map(headerText, (tag) => ({
      ...get,
      path: task,
      headers: { "If-None-Match": tag },
      expected: tag === "*" ? answered(304) : answered(200)
    }))
  },
  ...each("header valid", ["*", `W/"2", *`, ",,,", `"`, `W/`, `"\xff"`, ",".repeat(8000)], (tag) => ({
    ...get,
    path: task,
    headers: { "If-None-Match": tag },
    expected: answered(200, 304)
  })),
  {
    group: "header valid",
    name: "others",
    weight: 10,
    attempts: Arbitrary.map(
      Arbitrary.all({
        text: headerText,
        name: oneOf(otherHeaders)
      }),
      ({ name, text }) => ({
        ...get,
        path: task,
        headers: { [name]: text },
        expected: answered(200)
      })
    )
  }
]

const guarded = [
  { ...get, path: "/api/tasks" },
  { ...get, path: task },
  { ...get, path: `${task}/events` },
  { ...get, path: `${task}/deliveries` },
  { ...get, path: "/api/storage/base" },
  { ...get, method: "POST", path: "/api/tasks", body: "{" },
  { ...get, method: "POST", path: "/api/files", body: "{" },
  { ...post, path: `${task}/tool-results`, body: "{" },
  { ...post, path: `${task}/cancel`, body: "{" },
  { ...post, path: `${task}/rerun`, body: "{" },
  { ...post, path: "/api/tasks/cancel-interrupted" },
  { ...post, path: "/internal/core/events", body: "{" }
]

/** Shapes of a header; `tokenAttacks.ts` has attacks on the token itself. */
const brokenBearers = [
  "",
  "Bearer",
  "Bearer ",
  "Bearer  x",
  "Basic dXNlcjpwYXNz",
  "Bearer null",
  "Bearer .",
  "Bearer ..",
  "Bearer ...."
]
  .concat(`Bearer ${"x".repeat(8193)}`, `Bearer ${".".repeat(5000)}`, "Bearer é", "Bearer e30.e30.AA")

const tokenRules: ReadonlyArray<Rule> = [
  ...each(
    "token broken",
    brokenBearers,
    (authorization) => guarded.map((attempt) => ({ ...attempt, headers: { authorization }, expected: answered(401) }))
  ),
  {
    group: "token broken",
    name: "any text",
    weight: 10,
    attempts: Arbitrary.map(
      Arbitrary.all({ text: headerText, attempt: oneOf(guarded) }),
      ({ attempt, text }) => ({ ...attempt, headers: { authorization: `Bearer ${text}` }, expected: answered(401) })
    )
  }
]

export const headerRules: ReadonlyArray<Rule> = [...meaningRules, ...tokenRules]
