import { afterAll, assert, describe, it, onTestFinished } from "vitest"
import { Collector } from "../kit/Collector.ts"
import { openDatabase } from "../kit/databases.ts"
import { report, ScriptedCore } from "../kit/ScriptedCore.ts"
import { freePort, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

interface Line {
  readonly level: string
  readonly message: string
  readonly timestamp: string
  readonly trace_id?: string
  readonly cause?: string
  readonly annotations: Readonly<Record<string, unknown>>
}

/** Fails when a line is not JSON. */
const linesOf = (output: string): ReadonlyArray<Line> =>
  output.split("\n").filter((line) => line !== "").map((line) => {
    const parsed = JSON.parse(line)
    assert.isString(parsed.message, line)
    return parsed
  })

const database = await use(openDatabase())
const core = await use(new ScriptedCore().listen())
const collector = await use(new Collector().listen())
afterAll(() => core.close())

const token = "an internal token of 32 characters or more"
const eventToken = "a token for events of 32 characters or more"
const authorization = { authorization: `Bearer ${eventToken}` }

const production = {
  NODE_ENV: "production",
  DATABASE_URL: database.url,
  CORE_URL: core.url,
  ASSISTANT_BACKEND_URL: core.url,
  INTERNAL_TOKENS: token,
  CORE_EVENT_TOKENS: eventToken,
  ENCRYPTION_KEY: "1ufm9JqSlCnW7a7VYjGQDPBlEOWLJ5wA8gZ0vqvSjeE="
}

const open = (settings: Readonly<Record<string, string>>, main?: ReadonlyArray<string>, readiness?: string) =>
  Service.start({ ...production, ...settings }, undefined, main, readiness)

const start = (...options: Partial<Parameters<typeof open>>) => {
  const [settings = {}, ...more] = options
  return use(open(settings, ...more), onTestFinished)
}

const cli = "src/runtime/cli/Cli.ts"

/** The log lines of a process that exits with 1 instead of starting, or with 2 after a usage error. */
const failureLines = async (settings: Readonly<Record<string, string>>, main?: ReadonlyArray<string>) => {
  const failure = await open(settings, main).then(
    (service) => service.stop().then(() => "started"),
    ({ message }) => String(message)
  )
  assert.match(failure, /^exited with [12]:\n/)
  return linesOf(failure.replace(/^.*\n/, ""))
}

const nobody = `postgres://nobody@127.0.0.1:${await freePort()}/tasks`
// Waits 20 s for the database, so it begins before the tests.
const unreachable = failureLines({ DATABASE_URL: nobody }, [cli, "serve"])

describe("the log in production", () => {
  it("has JSON lines for the start, readiness and stop", async () => {
    const service = await start()
    await service.stop()
    const lines = linesOf(service.output)
    assert.deepStrictEqual(lines.map(({ message }) => message), [
      "starting",
      "ready",
      "draining: the process stops",
      "stopped"
    ])
    assert.deepInclude(lines[0]?.annotations, { mode: "production", cluster: false })
    assert.match(String(lines[0]?.annotations["version"]), /^\d+\.\d+\.\d+/)
    assert.deepInclude(lines[1]?.annotations, { address: service.url, publicUrl: service.url })
  })

  it("names each failed task with its reason and trace, and no content", async () => {
    const canary = "canary-of-an-error"
    const service = await start({
      ACCEPTANCE_TIMEOUT: "2 seconds",
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json"
    })
    const user = await mint("ann")
    const failed = (await service.create(user, "fails")).body.uuid
    const run = await core.run(failed)
    await report(run, { type: "processing" }, authorization)
    const failure = { type: "failed", code: "internal", message: canary }
    assert.strictEqual((await report(run, failure, authorization)).status, 200)
    const expired = (await service.create(user, "is never accepted")).body.uuid
    await service.until(user, expired, "failed")
    await service.stop()
    const lines = linesOf(service.output).filter(({ message }) => message === "a task failed")
    assert.deepStrictEqual(lines.map(({ annotations }) => annotations), [
      { taskId: failed, reason: "Failed" },
      { taskId: expired, reason: "AcceptanceExpired" }
    ])
    for (const [index, name] of ["POST /internal/core/events", "task clock"].entries()) {
      const spans = collector.spansOf(lines[index]?.trace_id ?? "none").map((span) => span.name)
      assert.include(spans, name)
    }
    assert.notInclude(service.output, canary)
  })

  it("has JSON lines for warnings of Node and for the exception that ends the process", async () => {
    const module =
      "process.on('SIGUSR2', () => process.emitWarning('odd')).on('SIGHUP', () => { throw new Error('bad') })"
    const service = await start({ NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(module)}` })
    service.signal("SIGUSR2")
    await service.logged(/odd/)
    await service.stop("SIGHUP")
    assert.strictEqual(service.process.exitCode, 1)
    const [warning, fatal] = linesOf(service.output).slice(-2)
    assert.deepInclude(warning, { level: "WARN", message: "Node: Warning: odd" })
    assert.deepInclude(fatal, { level: "FATAL", message: "uncaught exception" })
    assert.include(fatal?.cause, "Error: bad\n    at ")
  })

  it("has one JSON line for a failed start, after those for the wait", async () => {
    const [settings] = await failureLines({ CORE_URL: "" })
    assert.strictEqual(settings?.level, "FATAL")
    assert.match(settings?.message ?? "", /CORE_URL/)
    const [starting, ...waiting] = await unreachable
    const refused = waiting.pop()
    assert.strictEqual(starting?.message, "starting")
    assert.deepStrictEqual(
      waiting.map(({ message }) => /^Waiting for the database at \S+ for (\d+) s: .*ECONNREFUSED/.exec(message)?.[1]),
      ["2", "4", "8", "16"]
    )
    assert.strictEqual(refused?.level, "FATAL")
    assert.match(refused?.message ?? "", /ECONNREFUSED/)
    const [usage] = await failureLines({}, [cli, "serve", "--port", "odd"])
    assert.strictEqual(usage?.level, "FATAL")
    assert.match(usage?.message ?? "", /port/)
  })

  it("has JSON lines for a part that is served alone", async () => {
    const parts = { CORE_TOKEN: "the secret that the core expects", PUBLIC_URL: "http://service.test" }
    const main = [cli, "serve", "--only", "core"]
    const service = await start(parts, main, "/healthz")
    await service.stop()
    assert.deepStrictEqual(linesOf(service.output).map(({ message }) => message), ["starting", "ready", "stopped"])
    const [failed] = await failureLines({ PUBLIC_URL: "" }, main)
    assert.match(failed?.message ?? "", /PUBLIC_URL/)
  })
})
