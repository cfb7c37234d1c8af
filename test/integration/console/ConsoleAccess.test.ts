/** Every screen of the console: WCAG 2.2 AA by axe, layout at three widths, and hostile content. */
import { assert, beforeAll, describe, expect, it } from "vitest"
import { hasBrowser, useBrowser } from "../../kit/Browser.ts"
import { overflowOf, settled, violationsOf } from "../../kit/console/access.ts"
import { ConsolePage } from "../../kit/console/ConsolePage.ts"
import { createExamples, type ExampleTasks } from "../../kit/console/ExampleTasks.ts"
import { isFull } from "../../kit/console/full.ts"
import { createHostile, hostileTexts } from "../../kit/console/hostile.ts"
import { WebhookTarget } from "../../kit/ScriptedService.ts"
import { internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const { core, service } = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true", OPERATOR_CONTENT: "on" }))
const target = await use(new WebhookTarget().listen())

/** The screens of operators. */
const operatorAddressesOf = ({ completed, failed, interrupted }: ExampleTasks): ReadonlyArray<string> => [
  "/ops",
  "/ops/tasks",
  "/ops/tasks?status=failed&range=week",
  "/ops/tasks?status=canceled&error=nothing",
  ...[completed, failed, interrupted].map((uuid) => `/ops/tasks/${uuid}`),
  "/ops/errors",
  "/ops/webhooks",
  "/ops/webhooks?state=failed",
  "/ops/queue",
  "/ops/cluster",
  "/ops/revocations",
  "/ops/bulk",
  "/ops/audit",
  "/ops/users/mallory",
  "/ops/nowhere"
]

const tabs = ["", "?tab=run", "?tab=webhooks", "?tab=raw"]

const addressesOf = ({ completed, failed, interrupted, processing }: ExampleTasks): ReadonlyArray<string> => [
  "/tasks",
  "/tasks?status=pending",
  "/inbox",
  "/new",
  "/nowhere",
  ...tabs.map((tab) => `/tasks/${completed}${tab}`),
  `/tasks/${interrupted}?tab=run`,
  `/tasks/${processing}`,
  `/tasks/${failed}`
]

/** Without the full matrix, the theme and width of each screen in turn. */
const turns = ["light 1280", "dark 320", "dark 1280", "light 320"]

/** Opens all nodes of JSON trees that are closed. */
const openNodes = ({ page }: ConsolePage) =>
  page.locator(".json-toggle[aria-expanded=false]").evaluateAll((all) =>
    all.forEach((node) => node instanceof HTMLElement && node.click())
  )

const browser = await useBrowser()

describe.skipIf(!hasBrowser)("every screen", () => {
  let token: string
  let addresses: ReadonlyArray<string>
  let operatorAddresses: ReadonlyArray<string>
  beforeAll(async () => {
    token = await mint("marta")
    const examples = await createExamples(service, core, token, `${target.url}/`)
    addresses = addressesOf(examples)
    operatorAddresses = operatorAddressesOf(examples)
  })

  it("has no violation of WCAG 2.2 AA in either theme, and no sideways scroll at any width", async () => {
    const opened = await ConsolePage.open(browser, service.url, { reducedMotion: "reduce" })
    const check = async (address: string, index: number) => {
      await opened.goto(address)
      await settled(opened)
      // 640 px is 1280 px at twice the zoom.
      for (const width of [1280, 768, 640, 320]) {
        await opened.page.setViewportSize({ width, height: 800 })
        assert.isAtMost(await overflowOf(opened), 0, `${address} at ${width} px`)
        if (width === 768 || width === 640) continue
        for (const colorScheme of ["light", "dark"] as const) {
          if (!isFull && turns[index % turns.length] !== `${colorScheme} ${width}`) continue
          await opened.page.emulateMedia({ colorScheme })
          assert.deepStrictEqual(await violationsOf(opened), [], `${address} ${colorScheme} ${width} px`)
        }
      }
    }
    await check("/login", 0)
    await opened.logIn(token)
    await opened.heading("Tasks")
    for (const [index, address] of addresses.entries()) await check(address, index + 1)
    await check("/ops", 2)
    await opened.logInAsOperator(internalToken)
    for (const [index, address] of operatorAddresses.entries()) await check(address, index)
    opened.assertClean()
    await opened.close()
  }, 180_000)

  it("has no violation in its dialogs and menus", async () => {
    const opened = await ConsolePage.logIn(browser, service.url, token, { viewport: { width: 320, height: 700 } })
    await opened.button(/^Account of/).click()
    assert.deepStrictEqual(await violationsOf(opened), [], "account")
    await opened.button("Keyboard shortcuts").click()
    assert.deepStrictEqual(await violationsOf(opened), [], "shortcuts")
    await opened.page.keyboard.press("Escape")
    await opened.page.locator("dialog").waitFor({ state: "detached" })
    await expect.poll(() => opened.page.evaluate(() => document.activeElement?.className)).toBe("account-button")
    await opened.page.keyboard.press("Control+K")
    assert.deepStrictEqual(await violationsOf(opened), [], "palette")
    await opened.page.keyboard.press("Escape")
    await opened.page.locator("dialog").waitFor({ state: "detached" })
    await opened.goto("/inbox")
    await opened.button("Cancel all interrupted").click()
    assert.deepStrictEqual(await violationsOf(opened), [], "confirm")
    await opened.goto("/ops/revocations")
    await opened.logInAsOperator(internalToken)
    await opened.button("Revoke tokens").click()
    assert.deepStrictEqual(await violationsOf(opened), [], "revoke")
    assert.isAtMost(await overflowOf(opened), 0)
    await opened.close()
  })

  it("shows hostile content as text: it runs nothing, loads nothing and widens nothing", async () => {
    const attacker = await mint("mallory")
    const tasks = await createHostile(service, core, attacker)
    const opened = await ConsolePage.logIn(browser, service.url, attacker, { viewport: { width: 320, height: 800 } })
    for (const uuid of tasks) {
      await opened.goto(`/tasks/${uuid}`)
      for (const tab of ["Result", "Run", "Webhooks", "Raw"]) {
        const button = opened.page.getByRole("tab", { name: tab, exact: true })
        // A task that waits for an answer shows its output above the form.
        if (await button.count() === 0) continue
        await button.click()
        await settled(opened)
        for (let level = 0; level < 2; level++) await openNodes(opened)
        assert.isAtMost(await overflowOf(opened), 0, tab)
        assert.strictEqual(
          await opened.page.locator(
            "main :is(script, iframe, object, embed, form:not(.answer, .reply), img, style, base, link)"
          ).count(),
          0,
          tab
        )
        const links = await opened.page.locator("main a").evaluateAll((all) =>
          all.map((link) => (link as HTMLAnchorElement).protocol)
        )
        assert.deepStrictEqual(links.filter((protocol) => !["http:", "https:", "mailto:"].includes(protocol)), [], tab)
      }
    }
    await opened.goto("/tasks")
    await settled(opened)
    await opened.goto("/inbox")
    await settled(opened)
    await opened.goto("/ops/tasks?sub=mallory")
    await opened.logInAsOperator(internalToken)
    for (
      const address of [
        "/ops/tasks?sub=mallory",
        "/ops/errors",
        "/ops/webhooks",
        ...tasks.map((uuid) => `/ops/tasks/${uuid}`)
      ]
    ) {
      await opened.goto(address)
      await settled(opened)
      const button = opened.button("Show content")
      if (await button.count() > 0) {
        await button.click()
        await opened.page.locator(".json-root").waitFor()
        for (let level = 0; level < 2; level++) await openNodes(opened)
      }
      assert.isAtMost(await overflowOf(opened), 0, address)
      assert.strictEqual(
        await opened.page.locator("main :is(script, iframe, object, embed, img, style, base, link)").count(),
        0
      )
    }
    assert.isTrue(await opened.page.evaluate(() => !("hacked" in globalThis)))
    assert.isAbove(hostileTexts.length, 190)
    opened.assertClean()
    await opened.close()
  })
})
