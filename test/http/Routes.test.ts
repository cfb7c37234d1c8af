import { HttpServerRequest } from "effect/http"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { assert, describe, it } from "vitest"
import * as Routes from "../../src/http/Routes.ts"

const spanName = Routes.spanNames([])

const request = (method: string, path: string) =>
  HttpServerRequest.fromWeb(new Request(`http://service.test${path}`, { method }))

describe("Routes", () => {
  it("names the span of a request by method and route, without ids or query values", () => {
    const uuid = "01a1ff46-fab4-72be-99b8-5e6e2617b0cb"
    for (
      const [method, path, name] of [
        ["GET", "/api/tasks?page=2", "GET /api/tasks"],
        ["HEAD", `/api/tasks/${uuid}`, "HEAD /api/tasks/:uuid"],
        ["POST", `/api/tasks/${uuid}/cancel`, "POST /api/tasks/:uuid/cancel"],
        ["POST", "/api/tasks/cancel-interrupted", "POST /api/tasks/cancel-interrupted"],
        ["GET", `/api/tasks/${uuid}/deliveries/`, "GET /api/tasks/:uuid/deliveries"],
        ["POST", "/rpc", "POST /rpc"],
        ["DELETE", "/api/tasks", "DELETE"],
        ["GET", "/wp-login.php", "GET"]
      ] as const
    ) {
      assert.strictEqual(spanName(request(method, path)), name)
    }
  })

  it("knows the routes of an extension from its groups and its list", () => {
    const group = (path: `/${string}`) =>
      HttpApiGroup.make("things").add(HttpApiEndpoint.put("put", path), HttpApiEndpoint.get("get", path))
    const routes = {
      publicGroup: group("/api/things/:id"),
      documented: { group: group("/internal/things/:id") },
      routes: [{ method: "POST", path: "/raw" }]
    }
    const allowed = (path: string) => Routes.allowedMethods([routes], path, "all")
    assert.deepStrictEqual(allowed("/api/things/7"), ["PUT", "GET", "HEAD"])
    assert.deepStrictEqual(allowed("/internal/things/7"), ["PUT", "GET", "HEAD"])
    assert.deepStrictEqual(allowed("/raw"), ["POST"])
    assert.strictEqual(Routes.spanNames([routes])(request("PUT", "/api/things/7")), "PUT /api/things/:id")
    assert.deepStrictEqual(Routes.allowedMethods([{ ...routes, answersAllMethods: true }], "/raw", "all"), [])
  })

  it("has one path for all that name the same resource", () => {
    const uuid = "01a1ff46-fab4-72be-99b8-5e6e2617b0cb"
    for (
      const [given, path] of [
        ["/api/tasks/", "/api/tasks"],
        ["/api/t%61sks", "/api/tasks"],
        [`/api/tasks/${uuid.toUpperCase()}/cancel/`, `/api/tasks/${uuid}/cancel`],
        ["/api/Tasks/a%2Fb%20c", "/api/Tasks/a%2Fb%20c"]
      ] as const
    ) assert.strictEqual(Routes.canonicalPath(given), path)
  })

  it("excludes probes and scrapes from tracing", () => {
    for (const path of ["/healthz", "/readyz?x=1", "/internal/metrics"]) {
      assert.isFalse(Routes.isWorthATrace(request("GET", path)), path)
    }
    for (const path of ["/api/tasks", "/internal/core/events", "/healthzz"]) {
      assert.isTrue(Routes.isWorthATrace(request("GET", path)), path)
    }
  })
})
