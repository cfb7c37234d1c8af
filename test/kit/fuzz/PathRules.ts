/** Paths that do not exist, and methods that a path does not allow. */
import { answered, type Rule } from "./Attempt.ts"
import { each, get, post, task } from "./Requests.ts"

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

const nowhereRules: ReadonlyArray<Rule> = [
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
  "/internal/tokens/revoke": ["POST"],
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

export const pathRules: ReadonlyArray<Rule> = [...nowhereRules, ...methodRules]
