/** The documentation page in a real browser. */
import axe from "axe-core"
import { assert, describe, expect, it, onTestFinished } from "vitest"
import { hasBrowser, launch } from "../kit/Browser.ts"
import { mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const { service } = await use(startSystem())

describe.each(["/docs/", "/docs", "/internal/docs"])("%s", (path) => {
  it("has a content security policy that allows only its own origin", async () => {
    const page = await fetch(service.url + path)
    assert.strictEqual(page.status, 200)
    const policy = (page.headers.get("content-security-policy") ?? "").split(";").map((part) => part.trim().split(" "))
    assert.deepInclude(policy, ["default-src", "'none'"])
    for (const [directive, ...sources] of policy) {
      for (const source of sources) assert.include(["'none'", "'self'", "'unsafe-inline'", "data:"], source, directive)
    }
  })
})

describe.skipIf(!hasBrowser)("/docs in a browser", () => {
  it.each(["/docs", "/internal/docs"])("%s is small, in a language, accessible, and fits a phone", async (path) => {
    assert.isBelow((await (await fetch(service.url + path)).bytes()).length, 1_000_000)
    const browser = await use(launch(), onTestFinished)
    const page = await browser.newPage({ viewport: { width: 390, height: 844 } })
    await page.goto(service.url + path)
    assert.strictEqual(await page.evaluate(() => document.documentElement.lang), "en")
    assert.strictEqual(await page.evaluate(() => document.documentElement.scrollWidth), 390)
    await page.evaluate(`(() => { ${axe.source} })(); undefined`)
    const problems = () =>
      page.evaluate<ReadonlyArray<string>>(
        `axe.run(document).then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes[0].html.slice(0, 200)))`
      )
    assert.deepStrictEqual(await problems(), [])
    await page.getByRole("button", { name: /Test Request/ }).first().click()
    assert.deepStrictEqual(await problems(), [])
    assert.strictEqual(await page.evaluate(() => document.documentElement.scrollWidth), 390)
  })

  it("shows operations and examples without internet access, and calls the service with a token", async () => {
    const browser = await use(launch(), onTestFinished)
    const page = await browser.newPage()
    const requested: Array<string> = []
    const errors: Array<string> = []
    page.on("request", (request) => requested.push(request.url()))
    page.on("pageerror", ({ message }) => errors.push(message))
    // The browser reports a load that the policy forbids on the console and sends no request.
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()))
    await page.goto(`${service.url}/docs#tag/tasks/GET/api/tasks`)
    await page.getByRole("heading", { name: "Create a task" }).waitFor()
    await page.getByText("Bearer YOUR_SECRET_TOKEN").first().waitFor()
    // Each error is described once.
    assert.isAtMost(await page.getByText("The token is missing, invalid, expired or revoked.").count(), 2)
    await page.getByRole("button", { name: "Python" }).first().click()
    await page.getByText("print(client.tasks.create(").waitFor()
    await page.getByRole("button", { name: "curl" }).first().click()
    const navigation = page.getByRole("navigation", { name: "Operations" })
    await page.getByRole("searchbox", { name: "Filter" }).fill("tool-results")
    await expect.poll(() => navigation.locator("li li:visible").count()).toBe(1)
    await navigation.locator("li li:visible a").click()
    await page.waitForURL(/tool-results$/)
    await page.getByRole("searchbox", { name: "Filter" }).fill("")
    await page.getByText("019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913").first().waitFor()
    await page.getByRole("button", { name: "Test Request (get /api/tasks)", exact: true }).click()
    await page.getByRole("textbox", { name: /token/i }).last().click()
    await page.keyboard.insertText(await mint("browser"))
    await page.getByRole("button", { name: /Send.*request/i }).last().click()
    await page.getByText("200 OK").waitFor()
    assert.notInclude(await page.locator("body").innerText(), `${new URL(service.url).host}//`)
    assert.isTrue(requested.some((url) => url.startsWith(`${service.url}/api/tasks?`)))
    const foreign = requested.filter((url) => !url.startsWith(`${service.url}/`) && !url.startsWith("data:"))
    assert.deepStrictEqual(foreign, [])
    assert.deepStrictEqual(errors, [])
  })
})
