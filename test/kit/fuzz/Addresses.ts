/** Paths, methods, queries and headers, in all forms that CONTRACT 2 names and in broken ones. */
import { Arbitrary, Schema } from "effect"
import * as Limits from "../../../src/domain/Limits.ts"
import { TaskStatus } from "../../../src/domain/Task.ts"
import { answered, type Attempt, blaming, oneOf, type Rule } from "./Attempt.ts"

const get: Omit<Attempt, "path" | "expected"> = { target: "ended", caller: "owner", method: "GET" }
const post: Omit<Attempt, "path" | "expected"> = { target: "interrupted", caller: "owner", method: "POST" }
const task = "/api/tasks/{uuid}"
const small = `{"assistant_id":1,"input":[{"type":"text","text":"x"}]}`

const each = (
  group: string,
  names: ReadonlyArray<string>,
  attempt: (name: string) => Attempt | ReadonlyArray<Attempt>
): ReadonlyArray<Rule> =>
  names.map((name) => ({ group, name: name.slice(0, 60), attempts: oneOf([attempt(name)].flat()) }))

const brokenIntegers = (maximum: number, at: string) =>
  ["0", "-1", "1.5", "", "x", "1e1", "0x1", "%201", "1%20", "+1", "1,2", "%00", "1%00", "null", "NaN", "Infinity"]
    .concat(
      "%EF%BC%91",
      "%zz",
      "%ED%A0%80",
      "__proto__",
      "9".repeat(400),
      `${BigInt(maximum) + 1n}`,
      `1&${at}=2`
    )

const brokenStatuses = [
  "",
  "done",
  "Pending",
  "%20pending",
  "pending%20",
  "pending,",
  ",",
  "pending,,failed",
  "pending;failed"
]
  .concat("pending%00", "%ED%A0%80", "%zz", "__proto__", "constructor", "toString", "null", "x".repeat(8000))

const brokenForms = [
  "status[x]=pending",
  "status[pending]",
  "status[0][0]=pending",
  "status[-1]=pending",
  "status[__proto__]=x"
]

const pageForms = (name: string) => [`${name}[]=1`, `${name}[0]=1`, `${name}[x]=1`, `${name}[__proto__]=1`]

const listRules: ReadonlyArray<Rule> = [
  ...each(
    "list: query broken",
    [
      ...brokenStatuses.flatMap((value) =>
        ["status", "status[]", "status%5B%5D", "status[3]"].map((at) => `${at}=${value}`)
      ),
      ...brokenStatuses.map((value) => `status=pending&status[]=${value}`),
      ...brokenForms
    ],
    (query) => ({ ...get, path: `/api/tasks?${query}`, expected: blaming("status") })
  ),
  ...(["page", "per_page"] as const).flatMap((name) =>
    each(
      "list: query broken",
      [
        ...brokenIntegers(name === "page" ? Number.MAX_SAFE_INTEGER : Limits.perPage.maximum, name).map((value) =>
          `${name}=${value}`
        ),
        ...pageForms(name)
      ],
      (query) => ({ ...get, path: `/api/tasks?${query}`, expected: blaming(name) })
    )
  ),
  ...each(
    "list: query valid",
    ["page=1", "page=1000000000", `page=${Number.MAX_SAFE_INTEGER}&per_page=100`, "per_page=1", "per_page=100"].concat(
      "unknown=1",
      "__proto__=1",
      "__proto__[status]=x",
      "constructor=x&toString=x&hasOwnProperty=x",
      "=x",
      "&&&",
      "%00=%00",
      "%zz=%zz",
      "a=".concat("x".repeat(12_000))
    ),
    (query) => ({ ...get, path: `/api/tasks?${query}`, expected: answered(200) })
  ),
  {
    group: "list: query valid",
    name: "statuses in all forms",
    attempts: Arbitrary.all({
      statuses: Arbitrary.schema(Schema.NonEmptyArray(TaskStatus)),
      form: oneOf<(statuses: ReadonlyArray<string>) => string>([
        (statuses) => `status=${statuses.join(",")}`,
        (statuses) => `status=${statuses.join("%2C")}`,
        (statuses) => statuses.map((status) => `status=${status}`).join("&"),
        (statuses) => statuses.map((status) => `status[]=${status}`).join("&"),
        (statuses) => statuses.map((status) => `status%5B%5D=${status}`).join("&"),
        (statuses) => statuses.map((status, index) => `status[${index}]=${status}`).join("&"),
        ([first, ...statuses]) => `status[]=${[first, ...statuses].join(",")}&status=${first}`
      ])
    }).pipe(
      Arbitrary.map(({ form, statuses }) => ({ ...get, path: `/api/tasks?${form(statuses)}`, expected: answered(200) }))
    )
  }
]

const readRules: ReadonlyArray<Rule> = [
  ...each(
    "read: query broken",
    brokenIntegers(Limits.waitSeconds, "wait").map((value) => `wait=${value}`),
    (query) => ({ ...get, path: `${task}?${query}`, expected: blaming("wait") })
  ),
  ...each(
    "read: query broken",
    ["", "turn", "waiting_on,", "waiting_on,x", "%20waiting_on", "Waiting_on", "waiting_on%00", "__proto__", "%zz"].map(
      (value) => `include=${value}`
    ).concat("include=waiting_on&include=x"),
    (query) => ({ ...get, path: `${task}?${query}`, expected: blaming("include") })
  ),
  ...each(
    "read: query valid",
    ["wait=1", "wait=60", "include=waiting_on", "include=waiting_on,waiting_on&wait=60", "unknown=1", "__proto__=1"],
    (query) => ({ ...get, path: `${task}?${query}`, expected: answered(200) })
  )
]

/** Whatever fits into a header and comes through Node's client. */
const headerText = Arbitrary.map(
  Arbitrary.schema(Schema.String),
  (text) => text.replaceAll(/[^\t\x20-\x7e\xa0-\xff]/gu, "").trim()
)

const headerRules: ReadonlyArray<Rule> = [
  ...each(
    "header broken",
    ["", "a b", "é", "tab\there", "x".repeat(256), "ÿ"],
    (key) =>
      [
        { ...get, method: "POST", path: "/api/tasks", body: small },
        { ...post, path: `${task}/cancel` },
        { ...post, path: `${task}/tool-results`, body: `{"results":[]}` }
      ].map((attempt) => ({ ...attempt, headers: { "Idempotency-Key": key }, expected: blaming("Idempotency-Key") }))
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
    name: "X-Request-Id, Accept, Content-Type",
    attempts: Arbitrary.map(
      Arbitrary.all({
        text: headerText,
        name: oneOf([
          "X-Request-Id",
          "Accept",
          "Content-Type",
          "Content-Encoding",
          "Origin",
          "Traceparent",
          "B3",
          "X-Forwarded-For",
          "Cookie",
          "Range"
        ])
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
  { ...post, path: "/api/tasks/cancel-interrupted" },
  { ...post, path: "/internal/core/events", body: "{" }
]

const base64url = (text: string) => Buffer.from(text).toString("base64url")
const jwt = (header: string, claims: string, signature = "AA") =>
  [base64url(header), base64url(claims), signature].join(".")
const hs256 = `{"alg":"HS256"}`

const tokenRules: ReadonlyArray<Rule> = [
  ...each(
    "token broken",
    ["", "Bearer", "Bearer ", "Bearer  x", "Basic dXNlcjpwYXNz", "Bearer null", "Bearer .", "Bearer ..", "Bearer ...."]
      .concat(
        `Bearer ${jwt("", "")}`,
        `Bearer ${jwt("{}", "{}")}`,
        `Bearer ${jwt(`{"alg":"none"}`, `{"sub":"x"}`, "")}`,
        `Bearer ${jwt(`{"alg":"none"}`, `{"sub":"x"}`)}`,
        `Bearer ${jwt(hs256, `{"sub":"x","exp":9999999999}`)}`,
        `Bearer ${jwt(hs256, `{"sub":1e400}`)}`,
        `Bearer ${jwt(hs256, "null")}`,
        `Bearer ${jwt(`{"alg":"HS256","crit":["x"]}`, "{}")}`,
        `Bearer ${jwt(`{"alg":"__proto__"}`, "{}")}`,
        `Bearer ${jwt(`{"alg":"HS256","kid":"../../etc/passwd\\u0000"}`, "{}")}`,
        `Bearer ${jwt("[".repeat(2000), "{}")}`,
        `Bearer ${"x".repeat(8193)}`,
        `Bearer ${".".repeat(5000)}`,
        "Bearer é",
        `Bearer {"payload":"","signatures":[]}`
      ),
    (authorization) => guarded.map((attempt) => ({ ...attempt, headers: { authorization }, expected: answered(401) }))
  ),
  {
    group: "token broken",
    name: "any text",
    attempts: Arbitrary.map(
      Arbitrary.all({ text: headerText, attempt: oneOf(guarded) }),
      ({ attempt, text }) => ({ ...attempt, headers: { authorization: `Bearer ${text}` }, expected: answered(401) })
    )
  }
]

const oddUuids = [
  "nonsense",
  "null",
  "undefined",
  "1",
  "-1",
  "%00",
  "%zz",
  "%",
  "%ED%A0%80",
  "%F0%9F%98%80",
  "..",
  "%2e%2e",
  "%2F"
].concat(
  "00000000-0000-7000-8000-000000000000",
  "ffffffff-ffff-ffff-ffff-ffffffffffff",
  "{uuid}0",
  "%20{uuid}",
  "{uuid}%00",
  "{uuid}%20",
  "%7B{uuid}%7D",
  "{uuid}'--",
  "0{uuid}",
  "urn:uuid:{uuid}",
  "__proto__",
  "constructor",
  "x".repeat(8000)
)

const pathRules: ReadonlyArray<Rule> = [
  ...each("path odd", oddUuids, (uuid) => [
    { ...get, path: `/api/tasks/${uuid}`, expected: answered(404) },
    { ...get, path: `/api/tasks/${uuid}/events`, expected: answered(404) },
    { ...get, path: `/api/tasks/${uuid}/deliveries`, expected: answered(404) },
    { ...get, path: `/api/tasks/${uuid}?wait=x`, expected: answered(404) },
    { ...post, path: `/api/tasks/${uuid}/deliveries/x/redeliver`, expected: answered(404) },
    { ...post, path: `/api/tasks/${uuid}/tool-results`, body: "{", expected: answered(404) },
    { ...post, path: `/api/tasks/${uuid}/cancel`, body: "{", expected: answered(404) }
  ]),
  ...each(
    "path odd",
    [
      "/",
      "/api",
      "/api/",
      "//api/tasks",
      "/api//tasks",
      "/API/tasks",
      "/api/tasks.json",
      "/api/tasks/{uuid}/other",
      "/%41pi/tasks"
    ].concat(
      "/api/../api/tasks",
      "/api/%2e%2e/tasks",
      "/etc/passwd",
      "/internal",
      "/internal/core",
      "/Internal/core/events",
      "//internal/core/events",
      "/*",
      "*",
      "/api/tasks%00",
      "/api/tasks/{uuid}/tool-results/x",
      "/api/storage/../../etc/passwd",
      `/${"a/".repeat(3000)}`
    ),
    (path) => ({ ...get, path, expected: answered(404) })
  ),
  ...each("path odd", oddUuids.filter((id) => !["..", "%2e%2e", "%2F"].includes(id)), (id) => ({
    ...post,
    path: `${task}/deliveries/${id}/redeliver`,
    expected: answered(404)
  }))
]

const allowed: Readonly<Record<string, ReadonlyArray<string>>> = {
  "/api/tasks": ["GET", "HEAD", "POST"],
  "/api/tasks/cancel-interrupted": ["GET", "HEAD", "POST"],
  [task]: ["GET", "HEAD"],
  [`${task}/events`]: ["GET", "HEAD"],
  [`${task}/deliveries`]: ["GET", "HEAD"],
  [`${task}/tool-results`]: ["POST"],
  [`${task}/cancel`]: ["POST"],
  [`${task}/deliveries/1/redeliver`]: ["POST"],
  "/api/files": ["POST"],
  "/api/storage/base": ["GET", "HEAD"],
  "/internal/core/events": ["POST"],
  "/healthz": ["GET", "HEAD"],
  "/readyz": ["GET", "HEAD"],
  "/openapi.json": ["GET", "HEAD"],
  "/docs": ["GET", "HEAD"]
}

const methodRules: ReadonlyArray<Rule> = [
  ...Object.entries(allowed).flatMap(([path, methods]) =>
    each(
      "method odd",
      ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "M-SEARCH"].filter((
        method
      ) => !methods.includes(method)).map((method) => `${method} ${path}`),
      (name) => ({ ...get, method: name.split(" ", 1)[0]!, path, expected: answered(405) })
    )
  ),
  ...each("method valid", ["/api/tasks", task, `${task}/events`, "/healthz", "/readyz", "/docs"], (path) => ({
    ...get,
    method: "HEAD",
    path,
    expected: answered(200)
  }))
]

export const addressRules: ReadonlyArray<Rule> = [
  ...listRules,
  ...readRules,
  ...headerRules,
  ...tokenRules,
  ...pathRules,
  ...methodRules
]
