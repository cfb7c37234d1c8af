/** Two stories of the night with the keyboard alone: a user answers a question, an operator repeats what one cause let fail. */
import type { Page } from "playwright-core"
import { assert, describe, expect, it, onTestFinished } from "vitest"
import { hasBrowser, useBrowser } from "../../kit/Browser.ts"
import { ConsolePage } from "../../kit/console/ConsolePage.ts"
import { report } from "../../kit/ScriptedCore.ts"
import { internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { TokenIssuer } from "../../kit/TokenIssuer.ts"

/** To run tasks of users again, an operator needs fresh tokens of them. */
const issuer = await use(new TokenIssuer().listen())
const { core, runOf, service } = await use(startSystem({ TOKEN_URL: issuer.url }))

/** Presses Tab until the focus is on an element. */
const tabTo = async (page: Page, selector: string, text = "") => {
  for (let presses = 0; presses < 120; presses++) {
    const isThere = await page.evaluate(
      ([wanted = "", part = ""]) =>
        document.activeElement?.matches(wanted) === true && (document.activeElement.textContent ?? "").includes(part),
      [selector, text]
    )
    if (isThere) return
    await page.keyboard.press("Tab")
  }
  assert.fail(`the Tab key does not reach ${selector} ${text}`)
}

const browser = await useBrowser()

describe.skipIf(!hasBrowser)("with the keyboard alone", () => {
  it("a user finds the question that ends first, changes what the model proposes, and approves it", async () => {
    const token = await mint("night")
    const { body: { uuid } } = await service.create(token, "Refund the order 17", {
      client_tools: [{
        type: "function",
        name: "refund",
        parameters: { type: "object", properties: { amount: { type: "number" } } }
      }]
    })
    const run = await runOf(uuid)
    await report(run, { type: "interrupted", tool_calls: [{ id: "c", name: "refund", arguments: { amount: 30 } }] })
    const opened = await use(ConsolePage.logIn(browser, service.url, token), onTestFinished)
    const { page } = opened
    await page.keyboard.press("i")
    await opened.heading("Inbox")
    await page.getByRole("heading", { name: "Refund the order 17", level: 2 }).waitFor()
    await tabTo(page, ".call-form input[type=radio]")
    await page.keyboard.press("ArrowRight")
    await page.getByRole("radio", { name: "Approve with changes", checked: true }).waitFor()
    await tabTo(page, "input[type=number]")
    await page.keyboard.press("ControlOrMeta+A")
    await page.keyboard.type("25")
    await page.keyboard.press("Enter")
    await page.getByText("Nothing waits for you").waitFor()
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("Inbox")
    assert.deepInclude((await runOf(uuid, run)).resume, {
      results: [{ tool_call_id: "c", output: { approved: true, arguments: { amount: 25 } } }]
    })
    opened.assertClean()
  })

  it("an operator finds the cause of failures, and runs all of them again", async () => {
    for (const number of [17, 18]) {
      const { body } = await service.create(await mint(`sleeper-${number}`), `Order ${number}`)
      await report(await runOf(body.uuid), {
        type: "failed",
        code: "internal",
        message: `The shop answered 503 for the order ${number}`
      })
    }
    const before = core.runs.length
    const opened = await use(ConsolePage.open(browser, service.url), onTestFinished)
    const { page } = opened
    await opened.goto("/ops")
    await opened.logInAsOperator(internalToken)
    await opened.heading("Overview")
    await page.keyboard.press("Control+K")
    await page.keyboard.type("err")
    await page.keyboard.press("Enter")
    await opened.heading("Errors")
    await page.getByText("The shop answered 503 for the order …").waitFor()
    await page.keyboard.press("j")
    await tabTo(page, "button", "Run again")
    await page.keyboard.press("Enter")
    await page.getByRole("heading", { name: "Run again: 2?" }).waitFor()
    await tabTo(page, "dialog button[type=submit]")
    await page.keyboard.press("Enter")
    await page.getByText(/done: 2 done, 0 skipped, 0 failed of 2/).waitFor()
    await expect.poll(() => core.runs.length - before).toBe(2)
    opened.assertClean()
  })
})
