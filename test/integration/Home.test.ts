/** The page at `/`, and the token that a development service shows to the developer at the same machine only. */
import { request } from "node:http"
import { text } from "node:stream/consumers"
import { assert, describe, it } from "vitest"
import { hasBrowser, launch } from "../kit/Browser.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const development = { CORE_URL: "", JWT_SECRET: "" }
const directory = useDirectory()
const { service } = await use(startSystem({ ...development, DATA_DIR: directory }))
const html = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" }

/** Sends headers that `fetch` does not let a caller set; a POST with a body. */
const get = (path: string, headers: Readonly<Record<string, string>>, url = service.url, body?: string) =>
  new Promise<string>((resolve, reject) => {
    const sent = { connection: "keep-alive", ...html, ...headers }
    const method = body === undefined ? "GET" : "POST"
    request(`${url}${path}`, { method, headers: sent, agent: false }, async (response) => {
      const body = await text(response)
      response.destroy()
      resolve(`HTTP/1.1 ${response.statusCode}\n${JSON.stringify(response.headers)}\n${body}`)
    }).on("error", reject).end(body)
  })

const logIn = (headers: Readonly<Record<string, string>>, url = service.url) =>
  get("/console/dev-login", headers, url, `{"sub":"alice"}`)

const tokens = (page: string) => page.match(/eyJ[\w-]+\.[\w-]+\.[\w-]+/g) ?? []

describe("GET /", () => {
  it("is a page for browsers and stays unknown to everyone else", async () => {
    const page = await fetch(service.url, { headers: html })
    assert.deepStrictEqual([page.status, page.headers.get("content-type")], [200, "text/html"])
    assert.match(
      page.headers.get("content-security-policy") ?? "",
      /^default-src 'none'; style-src 'sha256-[\w+/]{43}=';/
    )
    assert.match(await page.text(), /Ready[\s\S]*href="\/console"[\s\S]*href="\/docs"[\s\S]*href="\/openapi.json"/)
    for (const init of [{}, { headers: { accept: "application/json" } }, { method: "POST", headers: html }]) {
      const unknown = await fetch(service.url, init)
      assert.deepStrictEqual([unknown.status, await unknown.json()], [404, {
        message: "There is nothing at this address."
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
    const strangers = [
      { origin: "https://evil.example" },
      { host: `evil.example:${port}` },
      { host: "127.0.0.1.evil.example" },
      { "x-forwarded-for": "203.0.113.7" },
      { forwarded: "for=203.0.113.7" },
      { "x-real-ip": "203.0.113.7" },
      { connection: "close" }
    ]
    assert.lengthOf(tokens(await logIn({})), 1)
    for (const headers of strangers) {
      assert.include(await logIn(headers), "HTTP/1.1 404")
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
    assert.include(await logIn({}, other.service.url), "HTTP/1.1 404")
    await other.close()
  })
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
    await page.setViewportSize({ width: 1280, height: 900 })
    await page.getByRole("navigation").getByRole("link", { name: "API reference" }).click()
    await page.getByRole("button", { name: "Test Request (post /api/tasks)", exact: true }).click()
    await page.getByRole("button", { name: /Send.*request/i }).last().click()
    await page.getByText("201 Created").first().waitFor()
    await browser.close()
    assert.deepStrictEqual(errors, [])
  })
})
