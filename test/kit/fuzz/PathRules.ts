/** Paths that do not exist, and methods that a path does not allow. */
import { methodsOf, operations } from "../operations.ts"
import { answered, type Rule } from "./Attempt.ts"
import { each, get, post, task } from "./Requests.ts"

const oddUuids = [
  ..."nonsense null undefined 1 -1 %00 %zz % %ED%A0%80 %F0%9F%98%80 .. %2e%2e %2F __proto__ constructor".split(" "),
  ..."00000000-0000-7000-8000-000000000000 ffffffff-ffff-ffff-ffff-ffffffffffff urn:uuid:{uuid}".split(" "),
  ..."{uuid}0 0{uuid} %20{uuid} {uuid}%20 {uuid}%00 %7B{uuid}%7D {uuid}'--".split(" "),
  "x".repeat(8000)
]

const oddPaths = [
  ..."/ /api /api/ //api/tasks /api//tasks /API/tasks /api/tasks.json /%41pi/tasks /api/tasks%00 /* *".split(" "),
  ..."/api/../api/tasks /api/%2e%2e/tasks /etc/passwd /api/storage/../../etc/passwd".split(" "),
  ..."/internal /internal/core /Internal/core/events //internal/core/events".split(" "),
  ..."/api/tasks/{uuid}/other /api/tasks/{uuid}/tool-results/x".split(" "),
  `/${"a/".repeat(3000)}`
]

const methods = "GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PROPFIND QUERY M-SEARCH".split(" ")

const ofTask = operations.filter(({ path }) => path.includes("{uuid}"))

const nowhereRules: ReadonlyArray<Rule> = [
  ...each("path odd", oddUuids, (uuid) => [
    { ...get, path: `/api/tasks/${uuid}?wait=x`, expected: answered(404) },
    ...ofTask.map((operation) => ({
      ...(operation.method === "GET" ? get : { ...post, body: "{" }),
      method: operation.method,
      path: operation.path.replace("{uuid}", uuid).replace("{id}", "x"),
      expected: answered(404)
    }))
  ]),
  ...each("path odd", oddPaths, (path) => ({ ...get, path, expected: answered(404) })),
  ...each("path odd", oddUuids.filter((id) => !["..", "%2e%2e", "%2F"].includes(id)), (id) => ({
    ...post,
    path: `${task}/deliveries/${id}/redeliver`,
    expected: answered(404)
  }))
]

const read = ["GET", "HEAD"]
const allowed = new Map([
  ...operations.map(({ path }) => path.replace("{id}", "1")).map((path) => [path, methodsOf(path)] as const),
  ...["/healthz", "/readyz", "/openapi.json", "/docs", "/internal/openapi.json", "/internal/docs"].map((path) =>
    [path, read] as const
  )
])

const methodRules: ReadonlyArray<Rule> = [
  ...[...allowed].flatMap(([path, own]) =>
    each(
      "method odd",
      methods.filter((method) => !own.includes(method)).map((method) => `${method} ${path}`),
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

/** Only the task's user may delete it, and only when it has ended. A body is ignored. */
const deleteRules: ReadonlyArray<Rule> = [
  ...(["processing", "interrupted", "fresh interrupted"] as const).flatMap((target) =>
    each(
      "delete",
      [target],
      () => ({ ...post, target, method: "DELETE", path: task, body: "{", expected: answered(409) })
    )
  ),
  ...each("delete", ["newcomer"], () => ({
    ...get,
    caller: "newcomer",
    method: "DELETE",
    path: task,
    expected: answered(403)
  }))
]

export const pathRules: ReadonlyArray<Rule> = [...nowhereRules, ...methodRules, ...deleteRules]
