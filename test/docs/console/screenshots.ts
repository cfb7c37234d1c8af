/** Writes a picture of every screen of the console, and those of the README: `npm run screenshots [folder] [part of a name] [widths]`. */
import * as fs from "node:fs"
import * as path from "node:path"
import type { Browser } from "playwright-core"
import postgres from "postgres"
import { launch } from "../../kit/Browser.ts"
import { createExamples, type ExampleTasks } from "../../kit/console/ExampleTasks.ts"
import { ScriptedCore } from "../../kit/ScriptedCore.ts"
import { WebhookTarget } from "../../kit/ScriptedService.ts"
import { internalToken, mint, Service } from "../../kit/Service.ts"
import { startPostgres } from "../../kit/standalone.ts"
import { createUgly, fillStatements, longSub, type UglyTasks } from "../../kit/UglyTasks.ts"

const folder = path.resolve(process.argv[2] ?? ".screenshots")
const wanted = process.argv[3] ?? ""
const widths = process.argv[4]?.split(",").map(Number) ?? [390, 768, 1440]

/** The two pictures of the README. */
const readme: Readonly<Record<string, string>> = {
  "result-1440-light": ".github/console-result.png",
  "interrupted-1440-dark": ".github/console-question.png"
}

/** As many as a service has after some months, for its largest user too. */
const filling = { tasks: 10_000, failures: 1500, sub: "marta@shop.example" }

const fill = async (url: string) => {
  const sql = postgres(url, { max: 1 })
  for (const statement of fillStatements(filling)) await sql.unsafe(statement)
  await sql.end()
}

/** Ended tasks begin earlier, as those of a working day do. */
const age = async (url: string, { canceled, completed, failed }: ExampleTasks) => {
  const sql = postgres(url, { max: 1 })
  const days = [[canceled, "2 days", "9 minutes"], [failed, "3 hours", "1 minute"], [
    completed,
    "26 minutes",
    "95 seconds"
  ]] as const
  for (const [uuid, before, took] of days) {
    await sql`UPDATE task_events SET occurred_at = (SELECT created_at FROM tasks WHERE uuid = ${uuid}) - ${before}::interval
        + CASE revision WHEN 0 THEN interval '0' WHEN 1 THEN interval '2 seconds' WHEN 2 THEN ${took}::interval / 3 ELSE ${took}::interval END
      WHERE task_uuid = ${uuid}`
    await sql`UPDATE tasks SET created_at = created_at - ${before}::interval, completed_at = created_at - ${before}::interval + ${took}::interval WHERE uuid = ${uuid}`
  }
  await sql.end()
}

const screensOf = (
  { completed, interrupted, processing }: ExampleTasks,
  ugly: UglyTasks,
  schedule: string
): Readonly<Record<string, string>> => ({
  tasks: "/tasks",
  inbox: "/inbox",
  new: "/new",
  result: `/tasks/${completed}`,
  run: `/tasks/${completed}?tab=run`,
  webhooks: `/tasks/${completed}?tab=webhooks`,
  raw: `/tasks/${completed}?tab=raw`,
  interrupted: `/tasks/${interrupted}`,
  processing: `/tasks/${processing}`,
  "ugly-interrupted": `/tasks/${ugly.interrupted}`,
  "ugly-wide": `/tasks/${ugly.wide}`,
  "ugly-failed": `/tasks/${ugly.failed}`,
  "ugly-arabic": `/tasks/${ugly.arabic}`,
  "ugly-arabic-run": `/tasks/${ugly.arabic}?tab=run`,
  "ugly-chinese": `/tasks/${ugly.chinese}`,
  "ugly-inbox": `/inbox?task=${ugly.interrupted}`,
  schedules: "/schedules",
  schedule,
  "schedule-new": "/schedules/new",
  "schedule-edit": `${schedule}/edit`,
  usage: "/usage"
})

const operatorScreensOf = ({ failed, interrupted }: UglyTasks, bulk: string): Readonly<Record<string, string>> => ({
  "ops-overview": "/ops",
  "ops-tasks": "/ops/tasks?range=week",
  "ops-task": `/ops/tasks/${interrupted}`,
  "ops-task-failed": `/ops/tasks/${failed}`,
  "ops-errors": "/ops/errors?range=week",
  "ops-stuck": "/ops/stuck",
  "ops-webhooks": "/ops/webhooks",
  "ops-schedules": "/ops/schedules",
  "ops-schedules-all": "/ops/schedules?show=all",
  "ops-endpoints": "/ops/endpoints",
  "ops-usage": "/ops/usage",
  "ops-queue": "/ops/queue",
  "ops-user": "/ops/users/marta%40shop.example",
  "ops-bulk": "/ops/bulk",
  "ops-bulk-one": bulk,
  "ops-audit": "/ops/audit",
  "ops-cluster": "/ops/cluster",
  "ops-revocations": "/ops/revocations"
})

/** Schedules of a user, as tidy and as ugly as their tasks. Returns the path of one with runs. */
const addSchedules = async (service: Service, token: string, url: string) => {
  const task = { assistant_id: 3, input: [{ type: "text", text: "Summarize the reviews of the last day" }] }
  const create = async (body: object): Promise<string> => {
    const made = await service.call("POST", "/api/schedules", token, { type: "cron", cron: "0 9 * * *", task, ...body })
    return made.body.id
  }
  const timezone = "Europe/Berlin"
  const daily = await create({ name: "Reviews of the day", timezone })
  await create({ name: "Stock report for the weekend", cron: "30 17 * * FRI", timezone })
  const paused = await create({
    name: "W".repeat(60),
    cron: "0,7,14,21,28,35,42,49,56 0-6/2,8,10,12-22/3 1-7,15,20-31/2 * *"
  })
  await service.call("POST", `/api/schedules/${paused}/pause`, token, {
    reason: "The supplier changes its catalogue. ".repeat(6)
  })
  const sql = postgres(url, { max: 1 })
  const tasks =
    await sql`SELECT uuid FROM tasks WHERE sub = 'marta@shop.example' AND status <> 'interrupted' ORDER BY uuid DESC LIMIT 18`
  const outcomes = ["created", "created", "missed", "failed", "skipped_overlap", ...tasks.map(() => "created")]
  for (const [index, outcome] of outcomes.entries()) {
    await sql`INSERT INTO schedule_runs (schedule_id, scheduled_for, outcome, count, started_at, task_uuid, error)
      VALUES (${daily}, date_trunc('day', now()) - make_interval(days => ${index}) + interval '8 hours', ${outcome}, 1,
        CASE WHEN ${outcome} = 'created' THEN date_trunc('day', now()) - make_interval(days => ${index}) + interval '8 hours 20 seconds' END,
        CASE WHEN ${outcome} = 'created' THEN ${tasks[index % tasks.length]?.["uuid"]}::uuid END,
        CASE WHEN ${outcome} = 'failed' THEN 'The token service answered 503 for marta@shop.example: upstream connect error' END)`
  }
  await sql.end()
  return `/schedules/${daily}`
}

/** Some weeks of usage, with long names of models. */
const addUsage = async (url: string, subs: ReadonlyArray<string>) => {
  const sql = postgres(url, { max: 1 })
  for (const [user, sub] of subs.entries()) {
    await sql`INSERT INTO usage_hours (sub, hour, assistant_id, model, tasks, completed, failed, canceled, input_tokens,
        output_tokens, total_tokens, cached_input_tokens, reasoning_tokens, active_seconds, unpriced_tokens, unmetered_tasks)
      SELECT ${sub}, date_trunc('hour', now()) - n * interval '9 hours', 1 + n % 3,
        (ARRAY['claude-sonnet', 'a-model-with-a-rather-long-name-2026-11-01-preview', 'gpt'])[n % 3 + 1], n % 9, n % 9, 0, 0,
        n * 72345 / ${user + 1}::int, n * 9123, n * 81468, 5, 6, n * 31, n * 81468, 0
      FROM generate_series(1, 60) AS n`
  }
  await sql.end()
}

/** What operators did on this day. Returns the path of a bulk action. */
const addActions = async (service: Service, { processing }: ExampleTasks) => {
  const call = (method: string, path: string, body?: object) =>
    service.call(method, `/internal/operator/${path}`, internalToken, body)
  await call("PUT", "users/leo%40shop.example/limits", { max_active_tasks: 40 })
  await call("PUT", "queue/assistants/4", { paused: true })
  await call("GET", `tasks/${processing}/content`)
  await call("PUT", "silences", {
    kind: "cause",
    key: "Request … was refused by the content filter (score …)",
    hours: 24
  })
  await call("POST", "revocations", { jti: "b7d2-lost-laptop-2" })
  await call("POST", "bulk", {
    action: "delete",
    filter: { sub: "user-7@shop.example" },
    reason: "Asked for by mail, HELP-48213"
  })
  const { body: { id } } = await call("POST", "bulk", {
    action: "delete",
    filter: { sub: longSub, status: "failed" },
    rate: 5,
    reason: "Failures of the outage on Monday: the customer wants none of them, as she wrote in HELP-48214"
  })
  return `/ops/bulk/${id}`
}

/** A day of history, as a small service has it. */
const addHistory = async (url: string) => {
  const sql = postgres(url, { max: 1 })
  await sql`
    INSERT INTO history
    SELECT name, date_trunc('minute', now()) - make_interval(mins => n),
      (weight * (1.2 + sin(n / 90.0) + (abs(hashint4(n * 7 + length(name))) % 100) / 60.0))::int
    FROM generate_series(0, 1440) AS n, (VALUES ('created', 6.0), ('completed', 5.0), ('failed', 0.3), ('canceled', 0.2),
      ('webhook_failed', 0.25), ('late_ms_max', 4)) AS counts (name, weight)
    ON CONFLICT DO NOTHING`
  await sql`INSERT INTO token_revocations (sub, issued_before, revoked_at) VALUES ('leo@shop.example', now(), now() - interval '2 hours')`
  await sql`INSERT INTO token_revocations (token_id, revoked_at) VALUES ('jti:b7d2-lost-laptop', now() - interval '1 day')`
  await sql.end()
}

const photograph = async (
  browser: Browser,
  url: string,
  token: string,
  screens: Readonly<Record<string, string>>,
  operatorScreens: Readonly<Record<string, string>>,
  width: number,
  colorScheme: "light" | "dark"
) => {
  const context = await browser.newContext({
    viewport: { width, height: 800 },
    colorScheme,
    deviceScaleFactor: 2,
    locale: "en-GB"
  })
  const page = await context.newPage()
  const shoot = async (name: string) => {
    if (!name.includes(wanted)) return
    await page.locator(".skeleton").first().waitFor({ state: "detached" })
    await page.waitForTimeout(700)
    await page.locator(".skeleton").first().waitFor({ state: "detached" })
    const picture = path.join(folder, `${name}-${width}-${colorScheme}.png`)
    await page.screenshot({ path: picture })
    const ofReadme = readme[`${name}-${width}-${colorScheme}`]
    if (ofReadme !== undefined) fs.copyFileSync(picture, ofReadme)
  }
  await page.goto(`${url}/console/login`)
  await page.getByLabel("Token").waitFor()
  await shoot("login")
  await page.getByLabel("Token").fill(token)
  await page.getByLabel(/Keep in this tab/).check()
  await page.getByRole("button", { name: "Log in", exact: true }).first().click()
  await page.getByRole("heading", { name: "Tasks" }).waitFor()
  for (const [name, address] of Object.entries(screens)) {
    if (!name.includes(wanted)) continue
    await page.goto(`${url}/console${address}`)
    await shoot(name)
  }
  await page.goto(`${url}/console/ops`)
  await page.getByLabel("Operator token").waitFor()
  await shoot("ops-login")
  await page.getByLabel("Operator token").fill(internalToken)
  await page.getByRole("button", { name: "Log in" }).click()
  await page.getByRole("heading", { name: "Overview" }).waitFor()
  for (const [name, address] of Object.entries(operatorScreens)) {
    if (!name.includes(wanted)) continue
    await page.goto(`${url}/console${address}`)
    await shoot(name)
  }
  for (const [name, address] of Object.entries({ home: "/", docs: "/docs" })) {
    if (!name.includes(wanted)) continue
    await page.goto(url + address)
    await shoot(name)
  }
  if ("empty".includes(wanted)) {
    const other = await browser.newContext({ viewport: { width, height: 800 }, colorScheme, locale: "en-GB" })
    const empty = await other.newPage()
    await empty.goto(`${url}/console/login`)
    await empty.getByLabel("Token").fill(await mint("new@shop.example"))
    await empty.getByRole("button", { name: "Log in", exact: true }).first().click()
    await empty.getByText("No tasks yet").waitFor()
    await empty.waitForTimeout(700)
    await empty.screenshot({ path: path.join(folder, `empty-${width}-${colorScheme}.png`) })
    await other.close()
  }
  await context.close()
}

fs.mkdirSync(folder, { recursive: true })
const database = await startPostgres()
const core = await new ScriptedCore().listen()
const target = await new WebhookTarget().listen()
const service = await Service.start({
  DATABASE_URL: database.url,
  CORE_URL: core.url,
  WEBHOOK_ALLOW_PRIVATE: "true",
  TOKEN_URL: "http://127.0.0.1:9",
  DATA_DIR: database.directory
})
const browser = await launch()
try {
  const token = await mint("marta@shop.example", { exp: Math.floor(Date.now() / 1000) + 8 * 3600 })
  const tasks = await createExamples(service, core, token, `${target.url}/hooks`)
  await age(database.url, tasks)
  const ugly = await createUgly(service, core, token)
  await fill(database.url)
  await addHistory(database.url)
  const schedule = await addSchedules(service, token, database.url)
  const bulk = await addActions(service, tasks)
  await addUsage(database.url, ["marta@shop.example", longSub, "leo@shop.example"])
  for (const width of widths) {
    for (const theme of ["light", "dark"] as const) {
      await photograph(
        browser,
        service.url,
        token,
        screensOf(tasks, ugly, schedule),
        operatorScreensOf(ugly, bulk),
        width,
        theme
      )
    }
  }
  console.log(`${fs.readdirSync(folder).length} pictures in ${folder}`)
} finally {
  await browser.close()
  await service.stop()
  await core.close()
  await target.close()
  await database.stop()
}
