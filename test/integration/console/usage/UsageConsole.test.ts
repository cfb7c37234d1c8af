/** The screens of usage in a browser, for users and for operators. */
import * as fs from "node:fs"
import { assert, describe, expect, it, onTestFinished } from "vitest"
import { hasBrowser, useBrowser } from "../../../kit/Browser.ts"
import { overflowOf, settled, violationsOf } from "../../../kit/console/access.ts"
import { ConsolePage } from "../../../kit/console/ConsolePage.ts"
import { report } from "../../../kit/ScriptedCore.ts"
import { internalToken, mint } from "../../../kit/Service.ts"
import { use } from "../../../kit/suite.ts"
import { startSystem } from "../../../kit/System.ts"

const { database, runOf, service } = await use(startSystem())
const widths = [320, 390, 768, 1440]

/** Sums of past days with long and odd names, and one task of today. */
const fill = async (sub: string, token: string) => {
  const names = ["W".repeat(180), "\u202eنموذج\u202c <img src=x>", "gpt"]
  await database.query(
    `INSERT INTO usage_hours (sub, hour, assistant_id, model, tasks, completed, failed, canceled, input_tokens,
      output_tokens, total_tokens, cached_input_tokens, reasoning_tokens, active_seconds, unpriced_tokens, unmetered_tasks)
    SELECT '${sub}', date_trunc('hour', now()) - n * interval '20 hours', 1, (ARRAY['${names.join("','")}'])[n % 3 + 1],
      n, n, 0, 0, n * 12345678, n * 1234567, n * 13580245, 5, 6, 7, n * 13580245, 0
    FROM generate_series(1, 25) n`
  )
  const { body: { uuid } } = await service.create(token, "x")
  const turn = {
    output: [],
    messages: [],
    metadata: { model: "gpt", usage: { input_tokens: 1234, output_tokens: 56 } }
  }
  await report(await runOf(uuid), { type: "completed", turn })
  return uuid
}

const browser = await useBrowser()

describe.skipIf(!hasBrowser)("the screens of usage", () => {
  const check = async (opened: ConsolePage, address: string) => {
    for (const [turn, width] of widths.entries()) {
      await opened.page.setViewportSize({ width, height: 900 })
      const colorScheme = turn % 2 === 0 ? "light" : "dark"
      await opened.page.emulateMedia({ colorScheme })
      await settled(opened)
      assert.isAtMost(await overflowOf(opened), 0, `${address} at ${width} px`)
      assert.deepStrictEqual(await violationsOf(opened), [], `${address} ${colorScheme} ${width} px`)
    }
    opened.assertClean()
  }

  it("show a user the tokens of each day and model, at any width, and those of a task", async () => {
    const token = await mint("consumer")
    const opened = await use(
      ConsolePage.logIn(browser, service.url, token, { reducedMotion: "reduce" }),
      onTestFinished
    )
    await opened.goto("/usage")
    await opened.page.getByText("Nothing was used in the last 30 days").waitFor()
    const uuid = await fill("consumer", token)
    await opened.goto("/usage")
    await opened.page.getByRole("img", { name: /^Tokens by day, from .+; most on .+: \d/ }).waitFor()
    await expect.poll(() => opened.page.locator(".usage-chart g").count()).toBe(30)
    await opened.page.getByRole("rowheader", { name: "gpt" }).waitFor()
    await opened.page.locator("summary", { hasText: "By day" }).click()
    const days = opened.page.getByRole("region", { name: "By day" })
    assert.match(await days.getByRole("row").nth(1).innerText(), /1,234|12,/)
    await check(opened, "/usage")
    const [file] = await Promise.all([
      opened.page.waitForEvent("download"),
      opened.button("Download CSV").click()
    ])
    assert.match(file.suggestedFilename(), /^usage-\d{4}-\d\d-\d\d-.+\.csv$/)
    const lines = fs.readFileSync(await file.path(), "utf8").split("\r\n")
    assert.match(lines[0] ?? "", /^from,to,user,assistant,model,tasks,input_tokens/)
    assert.isTrue(lines.some((line) => line.includes(",1,gpt,1,1234,")))
    await opened.page.getByRole("combobox", { name: /^Range/ }).selectOption("7")
    await expect.poll(() => opened.page.locator(".usage-chart g").count()).toBe(7)
    await opened.page.getByRole("combobox", { name: /^By/ }).selectOption("assistant")
    await opened.page.getByRole("region", { name: "By assistant" }).getByRole("rowheader", { name: "Rules" }).waitFor()
    await opened.goto(`/tasks/${uuid}`)
    await opened.page.getByText("1,234 in, 56 out").waitFor()
  })

  it("show operators the largest of many users", async () => {
    await fill("largest", await mint("largest"))
    await database.query(
      `INSERT INTO usage_hours (sub, hour, assistant_id, model, tasks, completed, failed, canceled, input_tokens, output_tokens,
        total_tokens, cached_input_tokens, reasoning_tokens, active_seconds, unpriced_tokens, unmetered_tasks)
      SELECT 'many-' || n, date_trunc('hour', now()), 1, '', 1, 1, 0, 0, 1, 1, 2, 0, 0, 0, 2, 0 FROM generate_series(1, 10500) n`
    )
    const opened = await use(ConsolePage.open(browser, service.url, { reducedMotion: "reduce" }), onTestFinished)
    await opened.goto("/ops/usage")
    await opened.logInAsOperator(internalToken)
    const users = opened.page.getByRole("region", { name: "Largest users" })
    await users.getByRole("rowheader", { name: "largest" }).waitFor()
    await expect.poll(() => users.getByRole("rowheader").count()).toBe(20)
    await check(opened, "/ops/usage")
  })
})
