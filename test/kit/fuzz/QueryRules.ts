/** Queries in all accepted forms, and in invalid ones. */
import { Arbitrary, Schema } from "effect"
import * as Limits from "../../../src/domain/Limits.ts"
import { TaskStatus } from "../../../src/domain/Task.ts"
import { answered, blaming, oneOf, type Rule } from "./Attempt.ts"
import { each, get, task } from "./Requests.ts"
import { ownersStatuses } from "./World.ts"

const brokenIntegers = (maximum: number, at: string) => [
  ...",0,-1,1.5,x,1e1,0x1,%201,1%20,+1,%00,1%00,null,NaN,Infinity,%EF%BC%91,%zz,%ED%A0%80,__proto__".split(","),
  "1,2",
  "9".repeat(400),
  `${BigInt(maximum) + 1n}`,
  `1&${at}=2`
]

const brokenStatuses = [
  ..." done Pending %20pending pending%20 pending, , pending,,failed pending;failed pending%00".split(" "),
  ..."%ED%A0%80 %zz __proto__ constructor toString null".split(" "),
  "x".repeat(8000)
]

const brokenForms = "status[x]=pending status[pending] status[0][0]=pending status[-1]=pending status[__proto__]=x"
  .split(" ")

const pageForms = (name: string) => [`${name}[]=1`, `${name}[0]=1`, `${name}[x]=1`, `${name}[__proto__]=1`]

const validQueries = [
  ..."page=1 page=1000000000 per_page=1 per_page=100 unknown=1 __proto__=1 __proto__[status]=x".split(" "),
  ..."constructor=x&toString=x&hasOwnProperty=x =x &&& %00=%00 %zz=%zz".split(" "),
  ..."include=metadata metadata[a]=x metadata%5Ba%5D=%20 metadata[__proto__]=x metadata[a][0]=x".split(" "),
  `metadata[a]=x&metadata[b]=x&metadata[]]=${
    "%F0%9F%98%80".repeat(Limits.metadataValueLength)
  }&include=metadata,metadata`,
  `page=${Number.MAX_SAFE_INTEGER}&per_page=100`,
  `a=${"x".repeat(12_000)}`
]

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
    "list: query broken",
    ["", "turn", "request", "metadata,", "metadata,request", "Metadata", "%zz"].map((value) => `include=${value}`),
    (query) => ({ ...get, path: `/api/tasks?${query}`, expected: blaming("include") })
  ),
  ...each(
    "list: query broken",
    [
      ..."metadata=x metadata metadata[]=x metadata[a=x metadata[=x metadata[a][0=x".split(" "),
      "abcd".split("").map((key) => `metadata[${key}]=x`).join("&")
    ],
    (query) => ({ ...get, path: `/api/tasks?${query}`, expected: blaming("metadata") })
  ),
  ...each(
    "list: query broken",
    ["", "%00", "x&metadata[a]=y", "x".repeat(Limits.metadataValueLength + 1)].map((value) => `metadata[a]=${value}`),
    (query) => ({ ...get, path: `/api/tasks?${query}`, expected: blaming("metadata.a") })
  ),
  ...each("list: query broken", ["k".repeat(Limits.metadataKeyLength + 1)], (key) => ({
    ...get,
    path: `/api/tasks?metadata[${key}]=x`,
    expected: blaming(`metadata.${key}`)
  })),
  ...each("list: query valid", validQueries, (query) => ({
    ...get,
    path: `/api/tasks?${query}`,
    expected: answered(200)
  })),
  {
    group: "list: query valid",
    name: "statuses in all forms",
    weight: 10,
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
      Arbitrary.map(({ form, statuses }) => ({
        ...get,
        path: `/api/tasks?${form(statuses)}`,
        expected: { statuses: [200], total: ownersStatuses.filter((status) => statuses.includes(status)).length }
      }))
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
    ["", "turns", "waiting_on,", "waiting_on,x", "%20waiting_on", "Waiting_on", "waiting_on%00", "__proto__", "%zz"]
      .map(
        (value) => `include=${value}`
      ).concat("include=waiting_on&include=x"),
    (query) => ({ ...get, path: `${task}?${query}`, expected: blaming("include") })
  ),
  ...each(
    "events: query broken",
    ["", "waiting_on", "turn,", "turn,x", "%20turn", "Turn", "turn%00", "__proto__", "%zz", "turn&include=x"].map((
      value
    ) => `include=${value}`),
    (query) => ({ ...get, path: `${task}/events?${query}`, expected: blaming("include") })
  ),
  ...each(
    "events: query valid",
    ["include=turn", "include=turn,turn", "include=turn&include=turn", "unknown=1", "__proto__=1"],
    (query) => ({ ...get, path: `${task}/events?${query}`, expected: answered(200) })
  ),
  ...each(
    "read: query valid",
    [
      ..."wait=1 wait=60 include=waiting_on include=waiting_on,waiting_on&wait=60 unknown=1 __proto__=1".split(" "),
      ..."include=turn include=request,turn,metadata,waiting_on include=request&include=metadata".split(" ")
    ],
    (query) => ({ ...get, path: `${task}?${query}`, expected: answered(200) })
  )
]

export const queryRules: ReadonlyArray<Rule> = [...listRules, ...readRules]
