/** Each path has one spelling, so that a rule of a proxy for a prefix cannot be bypassed. */
import { assert, describe, it } from "vitest"
import { freePort, internalToken, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const internalPort = await freePort()
const system = await use(startSystem({ CORS_ORIGINS: "*" }))
const apart = await use(Service.start({ ...system.settings, INTERNAL_PORT: String(internalPort) }))
const origin = "https://app.example"

const plain = ["/internal/metrics", "/internal/docs", "/rpc"]

/** The path with a suffix that routers cut off. */
const cut = (path: string) => [";", ";v=1", ";/x", ";v=1?x=1"].map((suffix) => path + suffix)

/** Public paths with such a suffix. Every path of operators and services with one, and with one letter encoded, in lower and upper hexadecimal digits. */
const misspelled = [
  ...["/healthz", "/v1/models", "/mcp", "/api/tasks"].flatMap(cut),
  ...plain.flatMap((path) => [
    ...cut(path),
    ...[...path].flatMap((char, index) => {
      const hex = char.charCodeAt(0).toString(16)
      const spell = (digits: string) => `${path.slice(0, index)}%${digits}${path.slice(index + 1)}`
      return char === "/" ? [] : [...new Set([spell(hex), spell(hex.toUpperCase())])]
    })
  ])
]

describe("a path in another spelling than the one it has", () => {
  it.each([
    ["one port", system.service.url],
    ["the public port", apart.url],
    ["the internal port", `http://127.0.0.1:${internalPort}`]
  ])("is 404 without CORS on %s", async (_, url) => {
    for (const path of misspelled) {
      for (const method of ["GET", "POST", "OPTIONS", "DELETE"]) {
        const headers = { authorization: `Bearer ${internalToken}`, origin, "access-control-request-method": "GET" }
        const answer = await fetch(url + path, { method, headers })
        assert.strictEqual(answer.status, 404, `${method} ${path}`)
        assert.isNull(answer.headers.get("access-control-allow-origin"), `${method} ${path}`)
        assert.deepStrictEqual(await answer.json(), { message: "There is nothing at this address.", code: "not_found" })
      }
    }
  })

  it("does not concern other paths, nor characters that have to be encoded", async () => {
    const { service } = system
    const { status } = await service.call("GET", "/api/t%61sks", await mint("ann"), undefined, { origin })
    assert.strictEqual(status, 200)
  })
})
