/** The page at `/`, and the token that a development service shows to the developer at the same machine only. */
import { assert, describe, it } from "vitest"
import { hasBrowser, launch } from "../kit/Browser.ts"
import { html, send, strangersTo } from "../kit/strangers.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const development = { CORE_URL: "", JWT_SECRET: "" }
const directory = useDirectory()
const { service } = await use(startSystem({ ...development, DATA_DIR: directory }))

const get = (path: string, headers: Readonly<Record<string, string>>, url = service.url) => send(url, path, headers)

const tokens = (page: string) => page.match(/eyJ[\w-]+\.[\w-]+\.[\w-]+/g) ?? []

describe("GET /", () => {
  it("says under curl where to go", async () => {
    for (const accept of ["*/*", "text/plain"]) {
      const response = await fetch(service.url, { headers: { accept } })
      assert.deepStrictEqual([response.status, response.headers.get("content-type")], [200, "text/plain"])
      const text = await response.text()
      for (const path of ["/docs", "/openapi.json", "/llms.txt"]) {
        assert.include(text, new URL(service.url).host + path)
      }
    }
    assert.lengthOf(tokens(await get("/", { accept: "*/*" })), 1)
    assert.deepStrictEqual(tokens(await get("/", { accept: "*/*", via: "1.1 proxy" })), [])
  })

  it("is a page for browsers and unknown to those who accept neither a page nor a text", async () => {
    const page = await fetch(service.url, { headers: html })
    assert.deepStrictEqual([page.status, page.headers.get("content-type")], [200, "text/html"])
    assert.match(
      page.headers.get("content-security-policy") ?? "",
      /^default-src 'none'; style-src 'sha256-[\w+/]{43}=';/
    )
    assert.match(await page.text(), /Ready[\s\S]*href="\/docs"[\s\S]*href="\/openapi.json"/)
    for (const init of [{ headers: { accept: "application/json" } }, { method: "POST", headers: html }]) {
      const unknown = await fetch(service.url, init)
      assert.deepStrictEqual([unknown.status, await unknown.json()], [404, {
        message: "There is nothing at this address.",
        code: "not_found"
      }])
    }
  })

  it("shows a curl command whose token works", async () => {
    const [token] = tokens(await get("/", {}))
    assert.strictEqual((await service.call("GET", "/api/tasks", token ?? "")).status, 200)
  })

  it.each(["/", "/docs"])("%s shows no token to other origins, names and proxies", async (path) => {
    assert.lengthOf(tokens(await get(path, {})), 1)
    const { port } = new URL(service.url)
    assert.lengthOf(tokens(await get(path, { host: `localhost:${port}` })), 1)
    for (const headers of strangersTo(port)) {
      const page = await get(path, headers)
      assert.deepStrictEqual([page.slice(0, 12), tokens(page)], ["HTTP/1.1 200", []], JSON.stringify(headers))
    }
  })

  it.each([
    ["a key of the operator", { CORE_URL: "" }],
    ["an address that others reach", { ...development, HOST: "0.0.0.0" }],
    ["a public URL", { ...development, PUBLIC_URL: "https://tasks.example.com" }]
  ])("shows no token with %s", async (_, settings) => {
    const other = await startSystem({ ...settings, DATA_DIR: directory })
    for (const path of ["/", "/docs"]) assert.deepStrictEqual(tokens(await get(path, {}, other.service.url)), [])
    await other.close()
  })
})

it("/llms.txt is the reference as text, without links into the repository", async () => {
  const response = await fetch(`${service.url}/llms.txt`)
  assert.deepStrictEqual([response.status, response.headers.get("content-type")], [200, "text/plain; charset=utf-8"])
  const text = await response.text()
  assert.match(text, /^# Asynchronous Task Service\n\n> /)
  for (const path of ["POST /api/tasks", "tool-results", "X-Signature", "/openapi.json"]) assert.include(text, path)
  assert.notMatch(text, /\]\((?!\/|https?:)/)
})

describe.skipIf(!hasBrowser)("a developer with a browser", () => {
  it("opens the page, follows it to the documentation and creates a task without typing anything", async () => {
    const browser = await launch()
    const page = await browser.newPage({ viewport: { width: 320, height: 640 } })
    const errors: Array<string> = []
    page.on("pageerror", ({ message }) => errors.push(message))
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()))
    await page.goto(service.url)
    assert.strictEqual(await page.evaluate(() => document.documentElement.scrollWidth), 320)
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"])
    await page.getByRole("button", { name: "Copy the command" }).click()
    await page.getByRole("button", { name: "Copied" }).waitFor()
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^TOKEN=eyJ[^]+\?wait=10/)
    await page.setViewportSize({ width: 1280, height: 900 })
    await page.getByRole("navigation").getByRole("link", { name: "API reference" }).click()
    await page.getByRole("button", { name: "Test Request (post /api/tasks)", exact: true }).click()
    await page.getByRole("button", { name: /Send.*request/i }).last().click()
    await page.getByText("201 Created").first().waitFor()
    await browser.close()
    assert.deepStrictEqual(errors, [])
  })
})
