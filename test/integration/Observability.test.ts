import { Effect } from "effect"
import { once } from "node:events"
import * as fs from "node:fs"
import { createServer } from "node:net"
import { afterEach, assert, describe, it, onTestFinished } from "vitest"
import { definitions, prometheusName } from "../../src/services/telemetry/Metrics.ts"
import { useRpc } from "../kit/callRpc.ts"
import { Collector } from "../kit/Collector.ts"
import { complete, interrupt, report } from "../kit/ScriptedCore.ts"
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { eventually, freePort, internalToken, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem, type System } from "../kit/System.ts"
import { expressionsOf, metricsOf } from "../runtime/deployment/alerts.ts"

// Extensions define metrics of their own.
await import("../../src/runtime/loadedExtensions.ts")

const prometheus = new URL("../../src/runtime/deployment/prometheus/", import.meta.url)
const alerts = fs.readFileSync(new URL("alerts.yaml", prometheus), "utf8")

const traceId = "0af7651916cd43dd8448eb211c80319c"
const traceparent = `00-${traceId}-b7ad6b7169203331-01`

/** Secrets and user data that must not appear in exports or logs. */
const canaries = {
  text: "canary-of-the-text",
  secret: "canary-of-the-callback-secret",
  query: "canary-of-the-callback-query",
  password: "canary-of-the-callback-password",
  turn: "canary-of-the-turn",
  argument: "canary-of-an-argument",
  result: "canary-of-a-tool-result",
  broken: "canary-of-a-broken-body",
  search: "canary-of-a-query",
  internalToken
}

const target = await use(new WebhookTarget().listen())
const accept = target.script
afterEach(() => {
  target.script = accept
})

const start = (settings: Readonly<Record<string, string>> = {}) =>
  use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true", ...settings }), onTestFinished)

const startObserved = async (settings: Readonly<Record<string, string>> = {}) => {
  const collector = await use(new Collector().listen(), onTestFinished)
  const system = await start({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_METRIC_EXPORT_INTERVAL: "200",
    OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=a%20test,service.namespace=ours",
    LOG_LEVEL: "Debug",
    ...settings
  })
  return { collector, system }
}

const scrape = ({ service }: System) => service.call("GET", "/internal/metrics", internalToken)

/** Runs a task that is interrupted, resumed and completed, with two webhooks. */
const runTask = async (system: System, headers: Record<string, string>, isPropagating: boolean) => {
  const token = await mint("ann")
  const { body } = await system.service.call("POST", "/api/tasks", token, {
    assistant_id: 1,
    input: [{ type: "text", text: canaries.text }],
    callback_url: `${target.url.replace("//", `//user:${canaries.password}@`)}/hook?key=${canaries.query}`,
    callback_secret: canaries.secret
  }, headers)
  const run = await system.runOf(body.uuid)
  /** The headers of an event; a core propagates the trace or not. */
  const traceOf = ({ run_id }: typeof run) =>
    isPropagating ? { traceparent: system.core.traceparents.get(run_id) ?? "" } : {}
  await report(run, { type: "processing" }, traceOf(run))
  const tool_calls = [{ id: "c1", name: "look", arguments: { at: canaries.argument } }]
  await interrupt(run, { tool_calls, accepted: true }, traceOf(run))
  const results = [{ tool_call_id: "c1", output: canaries.result }]
  await system.service.call("POST", `/api/tasks/${body.uuid}/tool-results`, token, { results }, headers)
  const resumed = await system.runOf(body.uuid, run)
  await complete(resumed, canaries.turn, traceOf(resumed))
  await eventually(async () => target.postsOf(body.uuid).length, (count) => count === 2)
  return { uuid: body.uuid as string, token }
}

describe("OTLP", () => {
  it("records a task in one trace, from the request through core and events to the webhook", async () => {
    const { collector, system } = await startObserved()
    const { uuid } = await runTask(system, { traceparent }, true)
    // A stop exports the pending telemetry.
    await system.service.stop()

    const spans = collector.spansOf(traceId)
    const named = (name: string) => spans.filter((span) => span.name === name)
    const parentOf = (span: { readonly parentSpanId?: string }) =>
      spans.find(({ spanId }) => spanId === span.parentSpanId)?.name
    const [create] = named("POST /api/tasks")
    assert.strictEqual(create?.parentSpanId, "b7ad6b7169203331")
    assert.strictEqual(create?.attributes["http.response.status_code"], 201)
    assert.deepStrictEqual(named("task dispatch").map(parentOf), [
      "POST /api/tasks",
      "POST /api/tasks/:uuid/tool-results"
    ])
    assert.deepStrictEqual(named("core start").map(parentOf), ["task dispatch", "task dispatch"])
    const events = named("POST /internal/core/events")
    assert.deepStrictEqual(events.map(parentOf), ["core start", "core start", "core start"])
    const databaseName = new URL(system.database.url).pathname.slice(1)
    assert.include(named(databaseName).map(parentOf), "POST /internal/core/events")
    const statements = collector.spans.filter(({ attributes }) => attributes["db.system.name"] === "postgresql")
    assert.deepStrictEqual([...new Set(statements.map(({ attributes }) => attributes["db.namespace"]))], [databaseName])
    assert.deepStrictEqual(named("webhook attempt").map(({ attributes }) => attributes["webhook.origin"]), [
      target.url,
      target.url
    ])
    for (const span of [create, ...events, ...named("task dispatch"), ...named("webhook attempt")]) {
      assert.strictEqual(span?.attributes["task.id"], uuid, span?.name)
    }
    for (const { headers } of target.postsOf(uuid)) {
      assert.notIncludeMembers(Object.keys(headers), ["traceparent", "tracestate", "b3"])
    }
    // Timers, sweeps and probes start no traces.
    const roots = collector.spans.filter(({ parentSpanId }) => parentSpanId === undefined).map(({ name }) => name)
    assert.deepStrictEqual(roots.filter((name) => !/^(GET|POST) \/api\//.test(name)), [])

    const attempt = collector.logs.find(({ message }) => message.startsWith("webhook attempt"))
    assert.strictEqual(attempt?.traceId, traceId)
    assert.strictEqual(attempt?.attributes["taskId"], uuid)
  })

  it("links events to the task's trace when the core does not propagate it", async () => {
    const { collector, system } = await startObserved()
    await runTask(system, { traceparent }, false)
    await system.service.stop()
    const events = collector.spans.filter(({ name }) => name === "POST /internal/core/events")
    assert.strictEqual(events.length, 3)
    for (const event of events) {
      assert.notStrictEqual(event.traceId, traceId)
      assert.deepStrictEqual(event.links.map((link) => link.traceId), [traceId])
    }
    assert.isNotEmpty(collector.spansOf(traceId).filter(({ name }) => name === "webhook attempt"))
  })

  it("continues the trace of an RPC caller", async () => {
    const { collector, system } = await startObserved()
    const task = { assistant_id: 1, input: [{ type: "text" as const, text: canaries.text }] }
    const traced = await useRpc(system.service, (client) =>
      Effect.gen(function*() {
        yield* client["Tasks.create"]({ sub: "ann", task })
        return (yield* Effect.currentSpan).traceId
      }).pipe(Effect.withSpan("the other service")))
    await eventually(async () => system.core.runs.length, (count) => count === 1)
    await system.service.stop()
    const spans = collector.spansOf(traced)
    const call = spans.find(({ name }) => name === "rpc.Tasks.create")
    const dispatch = spans.find(({ name }) => name === "task dispatch")
    assert.isDefined(call)
    assert.strictEqual(dispatch?.parentSpanId, call!.spanId)
  })

  it("exports metrics with the documented names, units, labels and resource attributes", async () => {
    const { collector, system } = await startObserved({ OTEL_SERVICE_NAME: "tasks" })
    await runTask(system, {}, true)
    await system.service.stop()

    const { "service.instance.id": instance, "service.version": version, ...resource } = collector.resource
    assert.match(String(instance), /^[0-9a-f-]{36}$/)
    assert.match(String(version), /^\d+\.\d+\.\d+/)
    assert.strictEqual(resource["service.name"], "tasks")
    assert.strictEqual(resource["service.namespace"], "ours")
    assert.strictEqual(resource["deployment.environment.name"], "a test")

    const units = { seconds: "s", bytes: "By", ratio: "1" }
    for (const { name, points, unit } of collector.metrics) {
      const known = definitions.find((definition) => definition.name === name)
      assert.isDefined(known, name)
      assert.strictEqual(unit, known?.unit === undefined ? "1" : units[known.unit], name)
      for (const { attributes } of points) {
        const { unit: _, ...labels } = attributes
        assert.sameMembers(Object.keys(labels), [...known!.labels], name)
      }
    }
    const pointOf = (name: string, attributes: object) =>
      collector.metrics.find((metric) => metric.name === name)?.points.find((point) =>
        Object.entries(attributes).every(([key, value]) => point.attributes[key] === value)
      )
    const created = { "http.request.method": "POST", "http.route": "/api/tasks", "http.response.status_code": "201" }
    assert.strictEqual(pointOf("http.server.request.duration", created)?.count, 1)
    assert.strictEqual(pointOf("core.call.duration", { operation: "start", outcome: "accepted" })?.count, 2)
    assert.strictEqual(pointOf("webhook.attempt.duration", { outcome: "delivered" })?.count, 2)
    assert.strictEqual(pointOf("webhook.attempt.lateness", {})?.count, 2)
    assert.strictEqual(
      pointOf("task.transitions", { event: "ToolResultsSubmitted", status: "processing" })?.asDouble,
      1
    )
    assert.isDefined(pointOf("task.live", { status: "pending" }))
    assert.isDefined(pointOf("process.memory.usage", {}))
  })

  it("exports and logs no secrets, tokens, user text or bodies, even on errors", async () => {
    target.script = (_, response) => response.writeHead(500).end()
    const { collector, system } = await startObserved()
    const { token, uuid } = await runTask(system, { traceparent }, true)
    system.core.onStart = () => 400
    const refused = await system.service.create(token, canaries.text, { callback_secret: canaries.secret })
    await system.service.until(token, refused.body.uuid, "failed")
    await system.service.call("POST", "/api/tasks", token, `{"input": "${canaries.broken}`)
    await system.service.create(token, canaries.text, { callback_url: `nowhere:${canaries.broken}\0` })
    await system.service.call("GET", `/api/tasks?status=${canaries.search}`, token)
    await system.service.call("GET", "/api/tasks", `${token}x`)
    await system.service.upload(token, "a.txt", canaries.text)
    await system.database.close()
    assert.strictEqual((await system.service.get(token, uuid)).status >= 500, true)
    await system.service.stop()

    const sent = collector.received.map(({ body }) => body).join("\n")
    assert.include(sent, uuid)
    assert.include(sent, refused.body.uuid)
    for (const [name, canary] of Object.entries({ ...canaries, token })) {
      assert.notInclude(sent, canary, `${name} is in the export`)
      assert.notInclude(system.service.output, canary, `${name} is in the log`)
    }
  })

  it("exports protobuf by default, with the configured headers", async () => {
    const { collector, system } = await startObserved({
      OTEL_EXPORTER_OTLP_PROTOCOL: "",
      OTEL_EXPORTER_OTLP_HEADERS: "x-api-key=a%20key,x-tenant=ours"
    })
    await system.service.create(await mint("ann"), "hello")
    await system.service.stop()
    assert.sameMembers([...new Set(collector.received.map(({ path }) => path))], [
      "/v1/traces",
      "/v1/metrics",
      "/v1/logs"
    ])
    for (const { headers } of collector.received) {
      assert.strictEqual(headers["content-type"], "application/x-protobuf")
      assert.strictEqual(headers["x-api-key"], "a key")
      assert.strictEqual(headers["x-tenant"], "ours")
    }
  })
})

describe("an unavailable collector", () => {
  const survives = async (endpoint: string) => {
    const system = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
      OTEL_METRIC_EXPORT_INTERVAL: "100",
      OTEL_EXPORTER_OTLP_TIMEOUT: "300",
      LOG_LEVEL: "Info"
    })
    await runTask(system, {}, true)
    await system.service.logged(/telemetry export to \S+ fails/)
    const token = await mint("ben")
    for (let count = 0; count < 50; count++) assert.strictEqual((await system.service.get(token, "x")).status, 404)
    const startedAt = performance.now()
    await system.service.stop()
    assert.isBelow(performance.now() - startedAt, 8000)
    assert.strictEqual(system.service.output.split("telemetry export to").length, 2, system.service.output)
    return system.service.process.exitCode
  }

  it("does not disturb the service and is logged once when it refuses connections", async () => {
    assert.strictEqual(await survives(`http://127.0.0.1:${await freePort()}`), 0)
  })

  it("does not disturb the service and is logged once when it never responds", async () => {
    const silent = createServer((socket) => socket.on("error", () => {}).resume()).listen(0, "127.0.0.1")
    await use(once(silent, "listening").then(() => silent), onTestFinished)
    const { port } = silent.address() as { readonly port: number }
    assert.strictEqual(await survives(`http://127.0.0.1:${port}`), 0)
  })
})

describe("GET /internal/metrics", () => {
  it("returns the Prometheus text format without a collector", async () => {
    const system = await start()
    const { uuid } = await runTask(system, {}, true)
    const token = await mint("ann")
    await system.service.call("GET", "/wp-login.php", token)
    await fetch(`${system.service.url}/api/tasks`, { method: "PROPFIND" })
    const { body, headers, status } = await scrape(system)
    assert.strictEqual(status, 200)
    assert.strictEqual(headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8")

    const label = `[a-zA-Z_]\\w*="(?:[^"\\\\\\n]|\\\\.)*"`
    const sample = new RegExp(`^([a-zA-Z_:][\\w:]*)(?:\\{(${label}(?:,${label})*)\\})? (?:[+-]?(?:\\d|Inf)\\S*|NaN)$`)
    const lines: ReadonlyArray<string> = body.trimEnd().split("\n")
    const types = new Map(lines.flatMap((line) => {
      const [, name, type] = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line) ?? []
      return name === undefined || type === undefined ? [] : [[name, type]]
    }))
    for (const line of lines.filter((line) => !line.startsWith("#"))) {
      const [, name] = sample.exec(line) ?? []
      assert.isDefined(name, line)
      const family = name!.replace(/_(bucket|sum|count)$/, "")
      assert.isTrue(types.get(family) === "histogram" || types.has(name!), line)
    }
    assert.includeMembers([...types.keys()], definitions.map(({ name }) => prometheusName(name)))
    assert.include(body, `task_transitions_total{event="Accepted",status="processing"} 1`)
    assert.include(body, `task_transitions_total{event="Completed",status="completed"} 1`)
    assert.match(body, /http_server_request_duration_seconds_count\{.*http_route="unmatched",.*"404"\} 1/)
    assert.match(body, /\{http_request_method="_OTHER",http_route="unmatched",http_response_status_code="405"\} 1/)
    for (const secret of [uuid, "ann", ...Object.values(canaries)]) assert.notInclude(body, secret)
  })

  it("has every series of the alert rules from the start, with few lines", async () => {
    const system = await start()
    const { body } = await scrape(system)
    for (const metric of expressionsOf(alerts).flatMap(metricsOf)) {
      assert.match(body, new RegExp(`^${metric}(_count)?(\\{.*\\})? `, "m"))
    }
    assert.include(body, `task_transitions_total{event="AcceptanceExpired",status="failed"} 0`)
    assert.include(body, `http_server_responses_total{http_response_status_class="5xx"} 0`)
    assert.include(body, `core_call_duration_seconds_count{operation="start",outcome="unavailable"} 0`)
    assert.isBelow(body.split("\n").length, 400)
  })

  it("reports the lateness of deadlines and the number of live tasks", async () => {
    const system = await start({ ACCEPTANCE_TIMEOUT: "300 millis" })
    const token = await mint("ann")
    const { body } = await system.service.create(token, "never accepted")
    await system.service.until(token, body.uuid, "failed")
    await system.service.create(token, "waits")
    const scraped = (await scrape(system)).body
    assert.include(scraped, `task_deadline_lateness_seconds_count{event="AcceptanceExpired"} 1`)
    assert.include(scraped, `task_deadline_lateness_seconds_bucket{event="AcceptanceExpired",le="1"} 1`)
    assert.match(scraped, /task_active 1\n/)
    assert.match(scraped, /task_live\{status="pending"\} 1\n/)
  })
})
