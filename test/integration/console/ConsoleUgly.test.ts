/** The console with what real users write: long words and names, wide tables, schemas with bounds, thousands of rows. */
import { assert, beforeAll, describe, expect, it } from "vitest"
import { hasBrowser, useBrowser } from "../../kit/Browser.ts"
import { overflowOf, settled, violationsOf } from "../../kit/console/access.ts"
import { ConsolePage } from "../../kit/console/ConsolePage.ts"
import { isFull } from "../../kit/console/full.ts"
import { internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { createUgly, fillStatements, longSub, type UglyTasks } from "../../kit/UglyTasks.ts"

const { core, database, runOf, service } = await use(startSystem())

const widths = [320, 390, 768, 1440]

const browser = await useBrowser()

describe.skipIf(!hasBrowser)("with ugly data", () => {
  let token: string
  let tasks: UglyTasks
  beforeAll(async () => {
    token = await mint(longSub)
    tasks = await createUgly(service, core, token)
    for (const statement of fillStatements({ tasks: isFull ? 10_000 : 1000, failures: 300, sub: longSub })) {
      await database.query(statement)
    }
  })

  const scrolledTo = ({ page }: ConsolePage) => page.evaluate(() => scrollY)

  it("no screen scrolls sideways at any width, violates WCAG 2.2 AA, or opens below its top", async () => {
    const opened = await ConsolePage.logIn(browser, service.url, token, { reducedMotion: "reduce" })
    const check = async (address: string, index: number) => {
      const order = isFull ? widths : [widths[index % widths.length] ?? 0]
      for (const width of order) {
        await opened.page.setViewportSize({ width, height: 800 })
        await opened.goto(address)
        await settled(opened)
        assert.isAtMost(await overflowOf(opened), 0, `${address} at ${width} px`)
        assert.strictEqual(await scrolledTo(opened), 0, `${address} at ${width} px`)
      }
      // The other screens are checked with tidy data.
      if (!isFull && index % 2 === 1) return
      for (
        const colorScheme of isFull
          ? ["light", "dark"] as const
          : [index % 4 === 0 ? "light" as const : "dark" as const]
      ) {
        await opened.page.emulateMedia({ colorScheme })
        assert.deepStrictEqual(await violationsOf(opened), [], `${address} ${colorScheme}`)
      }
    }
    const addresses = [
      "/tasks",
      "/inbox",
      `/new?again=${tasks.interrupted}`,
      `/tasks/${tasks.wide}?tab=run`,
      `/tasks/${tasks.wide}?tab=raw`,
      `/tasks/${tasks.interrupted}`,
      `/tasks/${tasks.wide}`,
      `/tasks/${tasks.failed}`,
      `/tasks/${tasks.arabic}`,
      `/tasks/${tasks.chinese}`
    ]
    for (const [index, address] of addresses.entries()) await check(address, index)
    await opened.goto("/ops")
    await opened.logInAsOperator(internalToken)
    const operatorAddresses = [
      "/ops",
      "/ops/tasks",
      "/ops/errors",
      "/ops/stuck",
      `/ops/tasks/${tasks.interrupted}`
    ]
    for (const [index, address] of operatorAddresses.entries()) await check(address, index)
    opened.assertClean()
    await opened.close()
  }, 180_000)

  it("shows the question of the inbox, and the place in the navigation, in the first view of a phone", async () => {
    const opened = await ConsolePage.logIn(browser, service.url, token, { viewport: { width: 390, height: 800 } })
    const { page } = opened
    const isInView = (selector: string) =>
      expect.poll(() =>
        page.locator(selector).first().evaluate((element) => {
          const { bottom, left, right, top } = element.getBoundingClientRect()
          return top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth
        })
      ).toBe(true)
    await opened.goto("/inbox")
    await isInView(".call-form legend")
    await isInView(".questions [aria-current]")
    await opened.goto("/ops/audit")
    await opened.logInAsOperator(internalToken)
    await isInView(".side [aria-current]")
    assert.isBelow(await page.locator(".side").evaluate(({ clientHeight }) => clientHeight), 110)
    // No list of operators is cut off on a tablet.
    await page.setViewportSize({ width: 768, height: 1000 })
    for (const address of ["/ops/cluster", "/ops/webhooks", "/ops/queue"]) {
      await opened.goto(address)
      await settled(opened)
      const hidden = await page.locator("main .rows").evaluateAll((lists) =>
        lists.map((list) => Math.max(0, list.getBoundingClientRect().right - innerWidth + 16))
      )
      assert.deepStrictEqual(hidden, hidden.map(() => 0), address)
    }
    opened.assertClean()
    await opened.close()
  })

  it("lists what each task asks, finds it, and returns to the row that was left", async () => {
    const opened = await ConsolePage.logIn(browser, service.url, token, { viewport: { width: 390, height: 600 } })
    const { page } = opened
    await page.getByRole("link", { name: /^Refund the order 2026-11-B-0417 if the carrier agrees/ }).waitFor()
    await page.getByText("project: Rückerstattungen 2026/27").waitFor()
    const link = page.locator("main [data-row]").nth(18)
    const name = await link.textContent()
    await link.scrollIntoViewIfNeeded()
    const y = await scrolledTo(opened)
    assert.isAbove(y, 500)
    // All of the row is the link.
    await page.getByRole("row").nth(18).click({ position: { x: 200, y: 8 } })
    await opened.task()
    assert.strictEqual(await scrolledTo(opened), 0)
    await page.goBack()
    await opened.heading("Tasks")
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe(name)
    assert.isAtMost(Math.abs(await scrolledTo(opened) - y), 2)
    await page.keyboard.press("/")
    await page.keyboard.type("help-48213")
    await page.keyboard.press("Enter")
    await page.getByText("1 task", { exact: true }).waitFor()
    await page.getByRole("searchbox").fill("nothing like it")
    await page.keyboard.press("Enter")
    await page.getByText("No task matches").waitFor()
    opened.assertClean()
    await opened.close()
  })

  it("shows 300 failures as their 13 causes, and finds tasks by parts", async () => {
    const opened = await ConsolePage.open(browser, service.url)
    const { page } = opened
    await opened.goto("/ops/errors")
    await opened.logInAsOperator(internalToken)
    await page.getByText("301 failures of 13 causes").waitFor()
    await expect.poll(() => page.locator("main tbody tr").count()).toBe(13)
    await page.getByRole("link", { name: "Tool call … timed out after … ms" }).click()
    await opened.heading("Tasks of all users")
    await page.getByText("Cause: Tool call").waitFor()
    await page.locator("main tbody tr").nth(24).waitFor()
    await expect.poll(() => page.locator("main tbody tr").count()).toBe(25)
    const search = async (text: string) => {
      await opened.goto("/ops/tasks")
      await page.getByRole("searchbox", { name: "Id, user, label or error" }).fill(text)
      await page.keyboard.press("Enter")
    }
    await search(`${tasks.wide.slice(0, 8)}…${tasks.wide.slice(-4)}`)
    await page.getByTitle(tasks.wide).waitFor()
    await search("help-48213")
    await page.getByTitle(tasks.interrupted).waitFor()
    await expect.poll(() => page.locator("main tbody tr").count()).toBe(1)
    await opened.goto("/ops")
    await page.getByText(/30 runs have made no progress for 15 minutes/).waitFor()
    assert.strictEqual(await page.getByText("Nothing needs attention").count(), 0)
    await page.getByRole("listitem").filter({ hasText: "no progress" }).getByRole("link", { name: "Look" }).click()
    await opened.heading("Stuck")
    await page.getByText("30 tasks").waitFor()
    await opened.button("Cancel…").first().click()
    await opened.button("Cancel the task").click()
    await page.getByText("29 tasks").waitFor()
    opened.assertClean()
    await opened.close()
  })

  it("reads plots by the arrow keys, all at the same time", async () => {
    const opened = await ConsolePage.open(browser, service.url)
    const { page } = opened
    // A minute may begin meanwhile.
    await database.query(
      "INSERT INTO history SELECT 'failed', date_trunc('minute', now()) - make_interval(mins => n), 7 FROM generate_series(-2, 70) AS n ON CONFLICT (name, minute) DO UPDATE SET value = 7"
    )
    await opened.goto("/ops")
    await opened.logInAsOperator(internalToken)
    const plot = page.getByRole("slider", { name: "Failed", exact: true })
    await plot.focus()
    await page.keyboard.press("ArrowLeft")
    await expect.poll(() => plot.getAttribute("aria-valuetext")).toMatch(/^\d\d:\d\d: 7$/)
    // A page that still fills moves under the mouse as well.
    await page.getByRole("slider", { name: "Completed", exact: true }).hover()
    await page.mouse.move(0, 0)
    const time = (await plot.getAttribute("aria-valuetext"))?.slice(0, 5) ?? ""
    await expect.poll(async () => {
      const shown = (await plot.getAttribute("aria-valuetext"))?.slice(0, 5)
      return page.locator(".axis-x strong", { hasText: shown ?? "none" }).count()
    }).toBe(await page.locator(".plot").count())
    await expect.poll(() => page.locator(".plot-failed .axis-y").allTextContents().then((all) => all.join())).toBe(
      "10,0"
    )
    await plot.hover({ position: { x: 2, y: 30 } })
    await expect.poll(() => plot.getAttribute("aria-valuetext")).not.toContain(time)
    opened.assertClean()
    await opened.close()
  })

  it("does not break a number of a table", async () => {
    const opened = await ConsolePage.logIn(browser, service.url, token, { viewport: { width: 390, height: 800 } })
    await opened.goto(`/tasks/${tasks.wide}`)
    await opened.page.locator(".prose table").first().waitFor()
    const heights = await opened.page.locator(".prose tbody td.right").evaluateAll((cells) =>
      cells.map((cell) => cell.getBoundingClientRect().height)
    )
    assert.isBelow(Math.max(...heights), 40)
    await opened.close()
  })

  it("presets no answer, refuses each wrong value at its field, and sends what was answered", async () => {
    const opened = await ConsolePage.logIn(browser, service.url, token, { viewport: { width: 390, height: 800 } })
    const { page } = opened
    await opened.goto(`/tasks/${tasks.interrupted}`)
    const question = page.getByRole("form", { name: "Answers to the tool calls" })
    await question.waitFor()
    assert.strictEqual(
      await question.locator("input[type=checkbox]:checked, .several input[type=radio]:checked").count(),
      0
    )
    const run = await core.run(tasks.interrupted)
    await opened.button("Send answer").click()
    await page.getByText("Must be given").first().waitFor()
    // The amount is what the model proposes; a decision is not.
    await expect.poll(() => page.getByText("Must be given").count()).toBe(2)
    await expect.poll(() => page.evaluate(() => document.activeElement?.closest("fieldset")?.textContent)).toMatch(
      /^Refund/
    )
    assert.deepStrictEqual(await violationsOf(opened), [])

    await expect.poll(() => page.getByLabel("Amount in EUR").inputValue()).toBe("189.9")
    await expect.poll(() => page.getByLabel("Order").inputValue()).toBe("2026-11-B-0417")
    await page.getByRole("radio", { name: "No", exact: true }).check()
    const fill = (label: string, value: string) => question.getByLabel(label, { exact: false }).first().fill(value)
    await fill("Reason for the books", "Lost by the carrier")
    const wrong = [
      ["Amount in EUR", "999", "At most 189.9", "189.9"],
      ["Amount in EUR", "0", "At least 0.01", "189.9"],
      ["Amount in EUR", "1.005", "A multiple of 0.01", "189.9"],
      ["Parcels", "0", "More than 0", "1"],
      ["Parcels", "10", "Less than 10", "1"],
      ["Parcels", "1.5", "Must be a whole number", "1"],
      ["Reason for the books", "x".repeat(81), "At most 80 characters", "Lost by the carrier"],
      ["Reason for the books", "lost", "At least 10 characters", "Lost by the carrier"],
      ["Order", "17", "Must match", "2026-11-B-0417"],
      ["Contact", "nobody", "An email address", "marta@shop.example"],
      ["Reference", "17", "A UUID", ""],
      ["Tracking page", "nowhere", "An address like", ""],
      ["City", "Y", "At least 2 characters", ""],
      ["Street", "Main road", "Must be given", ""]
    ] as const
    for (const [label, value, message, right] of wrong) {
      await fill(label, value)
      if (label !== "Amount in EUR") await fill("Amount in EUR", "12.5")
      await opened.button("Send answer").click()
      await page.locator(".field-error", { hasText: message }).waitFor()
      await expect.poll(() => page.locator(".field-error").count(), { message: label }).toBe(1)
      await fill(label, right)
    }
    await fill("Pay until", "2026-12-01")
    await fill("Pick up at", "10:31")
    await fill("Decided at", "2026-11-23T10:31")
    await page.getByLabel("Priority").selectOption("2")
    const labels = ["lost", "damaged", "late"].map((name) => question.getByRole("checkbox", { name, exact: true }))
    for (const label of labels) await label.check()
    await opened.button("Send answer").click()
    await page.locator(".field-error", { hasText: "Choose at most 2" }).waitFor()
    for (const label of labels) await label.uncheck()
    assert.strictEqual(opened.requests.filter((url) => url.endsWith("/tool-results")).length, 0)
    await opened.button("Send answer").click()
    const resumed = await runOf(tasks.interrupted, run)
    assert.deepNestedInclude(resumed.resume, {
      results: [{
        tool_call_id: "call_1",
        output: {
          approved: false,
          amount: 12.5,
          parcels: 1,
          reason: "Lost by the carrier",
          order: "2026-11-B-0417",
          contact: "marta@shop.example",
          due: "2026-12-01",
          pickup: "10:31:00Z",
          decided: "2026-11-23T10:31:00Z",
          priority: 2
        }
      }]
    })
    opened.assertClean()
    await opened.close()
  })
})
