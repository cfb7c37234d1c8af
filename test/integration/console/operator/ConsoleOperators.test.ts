/** Journeys of operators through the console, in a real browser. */
import { assert, describe, it, onTestFinished } from "vitest"
import { hasBrowser, useBrowser } from "../../../kit/Browser.ts"
import { startCluster } from "../../../kit/ClusterSystem.ts"
import { ConsolePage } from "../../../kit/console/ConsolePage.ts"
import { complete, report } from "../../../kit/ScriptedCore.ts"
import { WebhookTarget } from "../../../kit/ScriptedService.ts"
import { eventually, internalToken, mint } from "../../../kit/Service.ts"
import { use } from "../../../kit/suite.ts"

const readToken = "read-token-of-the-console-tests"
const system = await use(startCluster({ WEBHOOK_ALLOW_PRIVATE: "true", OPERATOR_READ_TOKENS: readToken }))
const target = await use(new WebhookTarget().listen())
const { runOf, service } = system
const user = await mint("dana")

const browser = await useBrowser()

describe.skipIf(!hasBrowser)("the console of operators", () => {
  const logIn = async (token: string, path: string) => {
    const opened = await use(ConsolePage.open(browser, service.url), onTestFinished)
    await opened.goto(path)
    await opened.logInAsOperator(token)
    return { opened, page: opened.page }
  }

  const create = async (more: object = {}) => {
    const { body } = await service.create(user, "x", more)
    return { uuid: String(body.uuid), run: await runOf(body.uuid) }
  }

  it("finds a failure from its group, and a running task by its user, which it cancels", async () => {
    const failed = await create()
    await report(failed.run, { type: "failed", code: "internal", message: "The <b>model</b> is away" })
    const running = await create()
    await report(running.run, { type: "processing" })
    const { opened, page } = await logIn(internalToken, "/ops/errors")
    await opened.heading("Errors")
    await page.getByRole("link", { name: "The <b>model</b> is away" }).click()
    await opened.heading("Tasks of all users")
    await page.getByTitle(failed.uuid).waitFor()
    assert.match(page.url(), /status=failed/)
    await page.keyboard.press("/")
    await page.keyboard.type(running.uuid)
    await page.keyboard.press("Enter")
    await opened.heading(/^Task /)
    await opened.button("Cancel").click()
    await page.getByLabel(/Reason/).fill("stuck")
    await opened.button("Cancel the task").click()
    await page.locator(".task-reason", { hasText: "stuck" }).waitFor()
    assert.strictEqual((await service.get(user, running.uuid)).body.status, "canceled")
    assert.strictEqual(await page.evaluate(() => document.cookie), "")
    opened.assertClean()
  })

  it("redelivers all failed webhooks of an origin after showing their number", async () => {
    const tasks = [await create({ callback_url: target.url }), await create({ callback_url: target.url })]
    for (const { run } of tasks) await complete(run)
    await eventually(async () => tasks.map(({ uuid }) => target.postsOf(uuid).length), (posts) => !posts.includes(0))
    const states = () =>
      service.call("GET", "/internal/operator/deliveries?state=delivered", internalToken).then(({ body }) =>
        body.data.length
      )
    await eventually(states, (count) => count === 2)
    // As after five attempts.
    await system.database.query("UPDATE webhook_deliveries SET delivered_at = NULL")
    const { opened, page } = await logIn(internalToken, "/ops/webhooks")
    await page.getByRole("link", { name: target.url }).first().click()
    await opened.button("Send all failed again").click()
    await page.getByRole("heading", { name: "Send again: 2?" }).waitFor()
    await page.getByText("2 failed webhooks match").waitFor()
    await opened.button("Send again").click()
    await eventually(
      async () => tasks.map(({ uuid }) => target.postsOf(uuid).length),
      (posts) => posts.every((count) => count === 2)
    )
    await page.locator("dialog").waitFor({ state: "detached" })
    assert.strictEqual(
      (await service.call("GET", "/internal/operator/deliveries?state=failed", internalToken)).status,
      200
    )
    opened.assertClean()
  })

  it("drains another node, takes it in again, and revokes a user's tokens", async () => {
    const other = await use(system.startNode(), onTestFinished)
    const { opened, page } = await logIn(internalToken, "/ops/cluster")
    const row = page.getByRole("row").filter({ hasNotText: "serves this page" }).filter({ hasText: "takes part" })
    await row.getByRole("button", { name: /^Drain/ }).click()
    await opened.button("Drain it").click()
    await eventually(() => fetch(`${other.url}/readyz`), ({ status }) => status === 503)
    await page.getByRole("button", { name: /^Take in/ }).click()
    await opened.button("Take it in").click()
    await eventually(() => fetch(`${other.url}/readyz`), ({ status }) => status === 200)
    await page.getByRole("link", { name: "Revocations" }).click()
    await opened.button("Revoke tokens").click()
    await page.getByLabel(/The user’s name/).fill("eve")
    await opened.button("Revoke").last().click()
    await page.getByRole("row", { name: /eve/ }).waitFor()
    assert.strictEqual((await service.call("GET", "/api/tasks", await mint("eve", { iat: 1 }))).status, 401)
    opened.assertClean()
  })

  it("limits and pauses an assistant, whose user sees the place of a task in the queue", async () => {
    const { opened, page } = await logIn(internalToken, "/ops/queue")
    await opened.button("Limit an assistant").click()
    await page.getByLabel("Assistant id").fill("70")
    await page.getByLabel(/^Runs at a time/).fill("1")
    await opened.button("Set the limit").click()
    const row = page.getByRole("row", { name: /^Assistant 70 / })
    await row.getByRole("button", { name: /^Pause/ }).click()
    await opened.button("Pause it").click()
    await row.getByText("paused").waitFor()

    const queued = await mint("queued")
    const { body: first } = await service.create(queued, "x", { assistant_id: 70 })
    const { body: second } = await service.create(queued, "x", { assistant_id: 70 })
    const user = await use(ConsolePage.logIn(browser, service.url, queued), onTestFinished)
    await user.goto("/tasks")
    const place = (uuid: string) => user.page.getByRole("row").filter({ has: user.page.getByTitle(uuid) })
    await place(first.uuid).getByText("Queued").waitFor()
    await place(second.uuid).getByText("1 before it").waitFor()
    await user.goto(`/tasks/${second.uuid}`)
    await user.page.getByText(/^1 before it, until/).waitFor()

    await row.getByText("2", { exact: true }).waitFor()
    // What a pause holds does not wait for room.
    await page.getByRole("link", { name: "Held by a pause 2" }).waitFor()
    await page.getByRole("link", { name: "Waiting for room 0" }).waitFor()
    await row.getByRole("button", { name: /^Resume/ }).click()
    await opened.button("Resume it").click()
    await complete(await runOf(first.uuid))
    await complete(await runOf(second.uuid))
    assert.isNotNull((await service.until(queued, second.uuid, "completed")).body.turn)
    opened.assertClean()
    user.assertClean()
  })

  it("shows no action to a read token, and ends with the session", async () => {
    const { uuid } = await create()
    const { opened, page } = await logIn(readToken, "/ops")
    await opened.button("Account of Operator, read only").waitFor()
    for (const address of ["/ops/cluster", "/ops/queue", `/ops/tasks/${uuid}`, "/ops/revocations", "/ops/webhooks"]) {
      await opened.goto(address)
      await page.getByRole("heading", { level: 1 }).waitFor()
      await eventually(() => page.locator(".skeleton").count(), (count) => count === 0)
      assert.strictEqual(
        await opened.button(/^(Drain|Take in|Cancel|Revoke tokens|Send|Show content|Pause|Resume|Limit)/).count(),
        0,
        address
      )
    }
    await opened.button(/^Account of/).click()
    const session = "**/internal/operator/session"
    await page.route(session, (route) => route.fulfill({ status: 503, json: { message: "Try again soon" } }))
    await opened.button("Log out").click()
    await page.getByRole("alert").getByText("Try again soon").waitFor()
    await page.unroute(session)
    await opened.button("Log out").click()
    await opened.heading("Log in as an operator")
    await opened.goto("/ops/tasks")
    await opened.heading("Log in as an operator")
    opened.assertClean()
  })
})
