/** The screens of schedules in a browser, for users and for operators. */
import { randomUUID } from "node:crypto"
import { assert, describe, expect, it, onTestFinished } from "vitest"
import { hasBrowser, useBrowser } from "../../../kit/Browser.ts"
import { overflowOf, settled, violationsOf } from "../../../kit/console/access.ts"
import { ConsolePage } from "../../../kit/console/ConsolePage.ts"
import { isFull } from "../../../kit/console/full.ts"
import { eventually, internalToken, mint } from "../../../kit/Service.ts"
import { use } from "../../../kit/suite.ts"
import { startSystem } from "../../../kit/System.ts"

const { database, service } = await use(startSystem({ TOKEN_URL: "http://127.0.0.1:9" }))
const task = { assistant_id: 1, input: [{ type: "text", text: "Good morning" }] }

/** Schedules whose texts are long, without a space, from right to left, and not text at all. */
const createUgly = async (token: string) => {
  const create = async (body: object): Promise<string> => {
    const made = await service.call("POST", "/api/schedules", token, { type: "cron", cron: "0 9 * * *", task, ...body })
    assert.strictEqual(made.status, 201, JSON.stringify(made.body))
    return made.body.id
  }
  const long = await create({
    name: "W".repeat(100),
    key: "k".repeat(100),
    cron: "0,7,14,21,28,35,42,49,56 0-6/2,8,10,12-22/3 1-7,15,20-31/2 JAN,MAR,MAY-DEC/2 MON-FRI",
    timezone: "America/Argentina/ComodRivadavia",
    starts_at: "2030-01-01T00:00:00Z",
    ends_at: "2031-01-01T00:00:00Z",
    pause_after_failures: 100,
    task: { ...task, metadata: { key: "v".repeat(500) }, input: [{ type: "text", text: "x".repeat(5000) }] }
  })
  await create({ name: "\u202eتقرير الصباح\u202c <img src=x onerror=hacked()>", timezone: "Asia/Kolkata" })
  const paused = await create({ name: "👩‍👩‍👧‍👦".repeat(12) })
  await service.call("POST", `/api/schedules/${paused}/pause`, token, { reason: "Because ".repeat(100) })
  await create({ type: "once", cron: null, delay: 31_000_000 })
  const outcomes = ["created", "missed", "failed", "skipped_overlap", "waiting"]
  for (const [index, outcome] of outcomes.entries()) {
    await database.query(
      `INSERT INTO schedule_runs (schedule_id, scheduled_for, outcome, count, started_at, task_uuid, error, try_at)
      VALUES ('${long}', now() - interval '${index + 1} hour', '${outcome}', ${outcome === "missed" ? 12_345 : 1},
        ${
        outcome === "created"
          ? `now() - interval '30 minutes', '${randomUUID()}', NULL`
          : `NULL, NULL, '${"no!".repeat(300)}'`
      },
        ${outcome === "waiting" ? "now() + interval '1 day'" : "NULL"})`
    )
  }
  return { long, paused }
}

const browser = await useBrowser()

describe.skipIf(!hasBrowser)("the screens of schedules", () => {
  const logIn = (sub: string) => ConsolePage.user(browser, service.url, sub)

  it("make a schedule with the keyboard alone, and show its moments while it is typed", async () => {
    const { opened, page, token } = await logIn("typist")
    const tabTo = async (selector: string) => {
      for (let presses = 0; presses < 80; presses++) {
        if (await page.evaluate((wanted) => document.activeElement?.matches(wanted) === true, selector)) return
        await page.keyboard.press("Tab")
      }
      assert.fail(`the Tab key does not reach ${selector}`)
    }
    const retype = async (selector: string, text: string) => {
      await tabTo(selector)
      await page.keyboard.press("ControlOrMeta+A")
      await page.keyboard.type(text)
    }
    await tabTo("a[href='/console/schedules']")
    await page.keyboard.press("Enter")
    await opened.heading("Schedules")
    await page.getByText("No schedules yet").waitFor()
    await tabTo("main a.primary")
    await page.keyboard.press("Enter")
    await opened.heading("New schedule")
    await retype("input[name=name]", "Morning report")
    await retype("input[name=cron]", "0 9 * * * *")
    await page.locator(".field-error", { hasText: "seconds is not supported" }).waitFor()
    await expect.poll(() => page.locator("input[name=cron]").getAttribute("aria-invalid")).toBe("true")
    await retype("input[name=cron]", "30 2 29 2 *")
    await retype("input[name=timezone]", "Europe/Berlin")
    const preview = page.getByRole("region", { name: "Next moments" })
    await preview.getByText("At 02:30 on day 29 of the month in February").waitFor()
    await preview.getByText(/29 Feb 2028, 02:30 CET/).waitFor()
    await expect.poll(() => preview.locator("li").count()).toBe(5)
    await page.keyboard.press("Enter")
    await page.locator(".field-error", { hasText: "Must be given" }).waitFor()
    await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("name"))).toBe("assistant_id")
    await tabTo("select[name=assistant_id]")
    await page.keyboard.type("Rules")
    await retype("textarea[name=text]", "Summarize the night")
    await tabTo("details summary")
    await page.keyboard.press("Enter")
    await retype("input[name=catchup_window]", "59")
    await page.keyboard.press("Enter")
    await page.locator(".field-error", { hasText: "between 60 and 86400" }).waitFor()
    await retype("input[name=catchup_window]", "60")
    await page.keyboard.press("Enter")
    await opened.heading("Morning report")
    const { body: { data: [made] } } = await service.call("GET", "/api/schedules", token)
    assert.deepInclude(made, {
      cron: "30 2 29 2 *",
      timezone: "Europe/Berlin",
      catchup_window: 60,
      overlap: "skip",
      task: { assistant_id: 1, input: [{ type: "text", text: "Summarize the night" }] }
    })
    opened.assertClean()
  })

  it("run a schedule now, link its task, pause, resume, change and delete it", async () => {
    const { opened, page, token } = await logIn("keeper")
    const { body: { id } } = await service.call("POST", "/api/schedules", token, {
      type: "cron",
      cron: "0 9 * * MON-FRI",
      timezone: "Europe/Berlin",
      name: "Report",
      task: { ...task, callback_url: "https://example.com/", callback_secret: "s", metadata: { a: "b" } }
    })
    await opened.goto(`/schedules/${id}`)
    await opened.heading("Report")
    await page.getByText("At 09:00 on Monday to Friday, Europe/Berlin").waitFor()
    await expect.poll(() => page.locator(".moments li").count()).toBe(5)
    // Its task is what is asked, and not JSON.
    await page.getByRole("region", { name: "Request" }).getByText(task.input[0]?.text ?? "none").waitFor()
    await page.getByText("More options of its tasks").click()
    await page.getByRole("definition").getByText("https://example.com/").waitFor()
    await opened.button("Run now").click()
    const { body: { data: [run] } } = await eventually(
      () => service.call("GET", `/api/schedules/${id}/runs`, token),
      ({ body }) => body.data.length === 1
    )
    await page.locator(`a[href='/console/tasks/${run.task_uuid}']`).click()
    await opened.task()
    await page.goBack()
    await opened.button("Pause…").click()
    await page.getByLabel(/^Reason/).fill("Holidays")
    await page.getByRole("dialog").getByRole("button", { name: "Pause", exact: true }).click()
    await page.getByText("Holidays").waitFor()
    await opened.button("Resume").click()
    await opened.button("Pause…").waitFor()
    await page.getByRole("link", { name: "Edit" }).click()
    await page.getByLabel(/^Name/).fill("Evening")
    await page.getByRole("textbox", { name: "Rhythm" }).fill("0 18 * * *")
    await page.keyboard.press("Enter")
    await opened.heading("Evening")
    const { body: changed } = await service.call("GET", `/api/schedules/${id}`, token)
    assert.deepInclude(changed, { name: "Evening", cron: "0 18 * * *", state: "active" })
    // The task was not sent, so it stays whole.
    assert.deepStrictEqual(changed.task, { ...task, callback_url: "https://example.com/", metadata: { a: "b" } })
    await page.getByRole("link", { name: "Edit" }).click()
    await page.getByRole("radio", { name: "Once later" }).check()
    await page.getByLabel("Moment", { exact: true }).fill("2020-01-01T00:00")
    await opened.button("Save").click()
    await page.locator(".field-error", { hasText: "past" }).waitFor()
    await page.goBack()
    await opened.button("Delete…").click()
    await opened.button("Delete the schedule").click()
    await page.getByText("No schedules yet").waitFor()
    await opened.goto(`/schedules/${id}`)
    await page.getByText("There is no such schedule.").waitFor()
    opened.assertClean()
  })

  it("have no violation and no sideways scroll with ugly data, in both themes", { timeout: 180_000 }, async () => {
    const token = await mint("ugly")
    const { long, paused } = await createUgly(token)
    // A color in transition has no contrast to measure.
    const opened = await use(
      ConsolePage.logIn(browser, service.url, token, { reducedMotion: "reduce" }),
      onTestFinished
    )
    const { page } = opened
    const widths = [320, 390, 768, 1440]
    const check = async (address: string, index: number) => {
      await opened.goto(address)
      await settled(opened)
      for (const [turn, width] of widths.entries()) {
        await page.setViewportSize({ width, height: 900 })
        assert.isAtMost(await overflowOf(opened), 0, `${address} at ${width} px`)
        for (const [theme, colorScheme] of (["light", "dark"] as const).entries()) {
          // Without the full matrix, the theme and width of each screen in turn.
          if (!isFull && index % 8 !== 2 * turn + theme) continue
          await page.emulateMedia({ colorScheme })
          assert.deepStrictEqual(await violationsOf(opened), [], `${address} ${colorScheme} ${width} px`)
        }
      }
    }
    const addresses = [
      "/schedules",
      "/schedules?state=ended",
      "/schedules/new",
      `/schedules/${long}`,
      `/schedules/${paused}`,
      `/schedules/${long}/edit`
    ]
    for (const [index, address] of addresses.entries()) await check(address, index)
    await opened.goto("/ops")
    await opened.logInAsOperator(internalToken)
    for (const [index, show] of ["", "?show=all", "?show=paused&q=nobody"].entries()) {
      await check(`/ops/schedules${show}`, index)
    }
    assert.isTrue(await page.evaluate(() => !("hacked" in globalThis)))
    opened.assertClean()
  })

  it("show operators what was late, missed and paused, of whom they search", async () => {
    await createUgly(await mint("searched"))
    const opened = await use(ConsolePage.open(browser, service.url), onTestFinished)
    const { page } = opened
    await opened.goto("/ops/schedules?q=searched")
    await opened.logInAsOperator(internalToken)
    await page.getByText("No moment is late now").waitFor()
    const rows = page.locator("tbody tr")
    const words = async () => (await page.locator(".cell-status").allTextContents()).map((text) => text.trim())
    await rows.first().waitFor()
    assert.deepStrictEqual(await words(), ["Started", "Missed 12,345 times", "Failed", "Waits"])
    await page.getByText("30 min late").waitFor()
    await page.getByLabel("Show").selectOption("paused")
    await page.getByText("Because").waitFor()
    assert.deepStrictEqual(await words(), ["Paused"])
    await page.getByLabel("User, key, name or id").fill("kkkkkk")
    await page.keyboard.press("Enter")
    await page.getByText("No schedule matches").waitFor()
    await page.getByLabel("Show").selectOption("all")
    await rows.first().waitFor()
    assert.include(await words(), "Active")
    opened.assertClean()
  })
})

describe("GET /internal/operator/schedules", () => {
  const get = (query: string, token = internalToken) =>
    service.call("GET", `/internal/operator/schedules${query}`, token)

  it("needs a token of operators, and names what it refuses", async () => {
    assert.strictEqual((await get("", "no")).status, 401)
    assert.strictEqual((await get("", await mint("user"))).status, 401)
    for (const [query, field] of [["?show=x", "show"], ["?q=%00", "q"], ["?sub=a", "sub"]]) {
      const { body, status } = await get(query!)
      assert.deepStrictEqual([status, Object.keys(body.errors)], [422, [field]], query)
    }
    assert.strictEqual((await service.call("POST", "/internal/operator/schedules", internalToken)).status, 405)
  })

  it("counts the moments that are late now", async () => {
    const token = await mint("late")
    const { body: { id } } = await service.call("POST", "/api/schedules", token, { type: "once", delay: 900, task })
    const { body } = await get(`?show=all&q=${id}`)
    assert.deepStrictEqual(Object.keys(body), ["now", "runs", "schedules", "complete"])
    assert.deepInclude(body.schedules[0], { id, sub: "late", state: "active", cron: null, paused_reason: null })
    assert.deepStrictEqual([body.schedules.length, body.complete, body.now.late], [1, true, 0])
  })
})
