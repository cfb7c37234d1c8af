/** A node whose LISTEN fails for good, or brings nothing, while its database works. */
import { assert, describe, it } from "vitest"
import { Proxy } from "../chaos/Proxy.ts"
import { openDatabase } from "../kit/databases.ts"
import { diagnose } from "../kit/runToEnd.ts"
import { eventually, internalToken, jwtSecret, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const readinessOf = async ({ url }: Service) => {
  const response = await fetch(`${url}/readyz`)
  return { status: response.status, body: await response.json() as { readonly warnings?: object } }
}

const gaugeOf = async (service: Service) => {
  const { body } = await service.call("GET", "/internal/metrics", internalToken)
  return /^cluster_notifications_arrive.* (\d)$/m.exec(body)?.[1]
}

const warning = /WARN.*: Notifications of other nodes do not arrive/g

describe("a node", () => {
  it.concurrent.for(
    [
      // As long, so that only the statement is another one.
      ["LISTEN fails", "LISTEN \"", "LISTEM \"", /, LISTEN fails: syntax error at or near "LISTEM"/],
      ["do not arrive", "LISTEN \"async_task_service\"", "LISTEN \"other_task_service\"", /do not arrive\. This node/]
    ] as const
  )(
    "whose notifications have the problem \"%s\" says so once and works, and says when it ends",
    { timeout: 90_000 },
    async (
      [problem, from, to, line],
      { onTestFinished }
    ) => {
      const database = await use(openDatabase(), onTestFinished)
      const proxy = await use(Proxy.before(database.directUrl), onTestFinished)
      const urls = { DATABASE_URL: database.directUrl, DATABASE_DIRECT_URL: proxy.urlOf(database.directUrl) }
      const restore = proxy.rewrite(from, to)
      const service = await use(Service.start(urls), onTestFinished)
      const token = await mint("someone")
      const deaf = await eventually(() => readinessOf(service), ({ body }) => body.warnings !== undefined, 40_000)
      assert.deepInclude(deaf, { status: 200 })
      assert.deepStrictEqual(deaf.body.warnings, { notifications: problem })
      await service.logged(line)
      assert.strictEqual(await gaugeOf(service), "0")
      const settings = {
        TASK_SERVICE_URL: service.url,
        ...urls,
        JWT_SECRET: jwtSecret,
        INTERNAL_TOKENS: internalToken
      }
      assert.strictEqual(await diagnose(settings, "service"), `warn ${service.url} is ready; notifications: ${problem}`)
      const { body } = await service.create(token, "Hello")
      await service.until(token, body.uuid, "completed")
      assert.lengthOf(service.output.match(warning) ?? [], 1)
      restore()
      // The session for LISTEN is replaced only when it ends.
      proxy.cut()
      await service.logged(/Notifications of other nodes arrive again/)
      const again = await eventually(() => readinessOf(service), ({ status }) => status === 200)
      assert.isUndefined(again.body.warnings)
      assert.strictEqual(await gaugeOf(service), "1")
      assert.lengthOf(service.output.match(warning) ?? [], 1)
    }
  )

  it.concurrent("whose database is away does not say that LISTEN fails", async ({ onTestFinished }) => {
    const database = await use(openDatabase(), onTestFinished)
    const proxy = await use(Proxy.before(database.directUrl), onTestFinished)
    const service = await use(Service.start({ DATABASE_URL: proxy.urlOf(database.directUrl) }), onTestFinished)
    const restore = await proxy.refuse()
    await eventually(() => readinessOf(service), ({ status }) => status === 503)
    await new Promise((resolve) => setTimeout(resolve, 25_000))
    await restore()
    await eventually(() => readinessOf(service), ({ status }) => status === 200)
    assert.isUndefined((await readinessOf(service)).body.warnings)
    assert.notMatch(service.output, warning)
  }, 90_000)
})
