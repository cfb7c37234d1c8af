/** The screen of webhook endpoints, in a real browser. */
import { assert, describe, it, onTestFinished } from "vitest"
import { hasBrowser, useBrowser } from "../../../kit/Browser.ts"
import { settled, violationsOf } from "../../../kit/console/access.ts"
import { ConsolePage } from "../../../kit/console/ConsolePage.ts"
import { WebhookTarget } from "../../../kit/ScriptedService.ts"
import { internalToken } from "../../../kit/Service.ts"
import { use } from "../../../kit/suite.ts"
import { startSystem } from "../../../kit/System.ts"

const readToken = "read-token-of-the-console-tests"
const { service } = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true", OPERATOR_READ_TOKENS: readToken }))
const target = await use(new WebhookTarget().listen())

const browser = await useBrowser()

describe.skipIf(!hasBrowser)("the screen of webhook endpoints", () => {
  const logIn = async (token: string) => {
    const opened = await use(ConsolePage.open(browser, service.url), onTestFinished)
    await opened.goto("/ops/endpoints")
    await opened.logInAsOperator(token)
    await opened.heading("Webhook endpoints")
    return { opened, page: opened.page }
  }

  it("registers an endpoint, shows its secret once, sends a sample, and disables it", async () => {
    const { opened, page } = await logIn(internalToken)
    await page.getByText("No webhook endpoint is registered").waitFor()
    await opened.button("Register an endpoint").click()
    await page.getByLabel("URL").fill(`${target.url}/console`)
    await page.getByRole("dialog").getByRole("button", { name: "Register" }).click()
    await page.getByText(/^whsec_/).waitFor()
    await opened.button("I have stored it").click()
    await page.getByText(`${target.url}/console`).waitFor()
    await opened.button("Send a sample").click()
    await page.getByText("Sample: delivered, 204").first().waitFor()
    assert.strictEqual(target.received.length, 1)
    await settled(opened)
    assert.deepStrictEqual(await violationsOf(opened), [])
    await opened.button("Disable").click()
    await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click()
    await page.getByRole("cell", { name: "Disabled", exact: true }).waitFor()
    opened.assertClean()
    const reader = await logIn(readToken)
    await reader.page.getByText(`${target.url}/console`).waitFor()
    assert.strictEqual(await reader.page.getByRole("button", { name: "Send a sample" }).count(), 0)
  })
})
