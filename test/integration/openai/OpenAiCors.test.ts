/** The official OpenAI SDK in a web page of another origin. */
import { rolldown } from "rolldown"
import { assert, it, onTestFinished } from "vitest"
import { hasBrowser, launch } from "../../kit/Browser.ts"
import { LoopbackServer } from "../../kit/LoopbackServer.ts"
import { mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const system = await use(startSystem({ FACADE_MODELS: "gpt-5=1" }))

it.skipIf(!hasBrowser)("allows what the official OpenAI SDK sends from a web page", async () => {
  const build = await rolldown({ input: "openai", platform: "browser", logLevel: "silent" })
  const { output: [{ code }] } = await build.generate({ format: "iife", name: "sdk", exports: "named" })
  const site = await use(
    new LoopbackServer((_, response) => response.setHeader("content-type", "text/html").end("<title>App</title>"))
      .listen(),
    onTestFinished
  )
  const service = await use(Service.start({ ...system.settings, CORS_ORIGINS: site.url }), onTestFinished)
  const page = await (await use(launch(), onTestFinished)).newPage()
  await page.goto(site.url)
  await page.addScriptTag({ content: code })
  const options = {
    baseURL: `${service.url}/v1`,
    apiKey: await mint("cors"),
    organization: "one",
    project: "two",
    timeout: 20_000,
    maxRetries: 0,
    dangerouslyAllowBrowser: true
  }
  const status = await page.evaluate<string>(`(async () => {
    const client = new sdk.OpenAI(${JSON.stringify(options)})
    const [{ id: model }] = (await client.models.list()).data
    const { id } = await client.responses.create({ model, input: "hi", background: true }, { timeout: 10_000 })
    for await (const { type } of client.responses.stream({ model, input: "hi", background: true })) break
    return (await client.responses.retrieve(id, {}, { headers: { "OpenAI-Beta": "responses=v1" } })).status
  })()`)
  assert.include(["queued", "in_progress", "completed"], status)
})
