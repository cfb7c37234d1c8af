import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Exit, Layer, Logger, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import { type AddressInfo, connect as connectTo, createServer, type Server, type Socket } from "node:net"
import { inject } from "vitest"
import * as AdmissionGate from "../../src/runtime/postgres/AdmissionGate.ts"
import * as DatabaseClient from "../../src/runtime/postgres/DatabaseClient.ts"
import * as DatabaseMonitor from "../../src/runtime/postgres/DatabaseMonitor.ts"
import * as DatabaseSession from "../../src/runtime/postgres/DatabaseSession.ts"
import { DatabaseSockets } from "../../src/runtime/postgres/DatabaseSockets.ts"
import { type DatabaseUrl, optionsFor, parse } from "../../src/runtime/postgres/DatabaseUrl.ts"
import { StoreHealth } from "../../src/services/store/StoreHealth.ts"
import { Proxy } from "../chaos/Proxy.ts"
import { type RefusesAt, refusingPooler } from "../kit/refusingPooler.ts"
import { eventually } from "../kit/Service.ts"

const layerOf = (parsed: DatabaseUrl) =>
  DatabaseClient.layer({ ...optionsFor(parsed, parsed.hosts[0], false), maxConnections: 2 }).pipe(
    Layer.provide(DatabaseSockets.layer(parsed.hosts))
  )

const portOf = (pooler: Server) => (pooler.address() as AddressInfo).port
const urlOf = (pooler: Server) => parse(Redacted.make(`postgres://someone@127.0.0.1:${portOf(pooler)}/tasks`))

/** The problem before each of `count` sessions, which a pooler refuses as `refusals` says; the last one repeats. */
const problemsOf = Effect.fnUntraced(function*(code: string, count: number, refusals: ReadonlyArray<RefusesAt>) {
  let health: typeof StoreHealth.Service | undefined
  const found: Array<string | null> = []
  const pooler = yield* refusingPooler(code, () => {
    found.push(health?.problem() ?? null)
    return refusals[found.length - 1] ?? refusals.at(-1) ?? "statement"
  })
  health = Context.get(yield* Layer.build(layerOf(urlOf(pooler))), StoreHealth)
  yield* Effect.promise(() => eventually(async () => found, ({ length }) => length >= count))
  return found.slice(0, count)
})

/** The service's SQL client over two proxies of one database, with the live clock. */
const connect = Effect.gen(function*() {
  const { proxy, url } = yield* Proxy.scoped(inject("postgresUrl"))
  const { proxy: other } = yield* Proxy.scoped(inject("postgresUrl"))
  const port = `:${proxy.port}`
  const parsed = parse(Redacted.make(Redacted.value(url).replace(port, `${port},127.0.0.1:${other.port}`)))
  return { proxy, other, sql: Context.get(yield* Layer.build(layerOf(parsed)), SqlClient.SqlClient) }
})

/** The same over one proxy, when it has noticed that the database is away. Logins take `login` milliseconds when `end` was called. */
const unavailable = Effect.fnUntraced(function*(login: number) {
  const { proxy, url } = yield* Proxy.scoped(inject("postgresUrl"))
  const sql = Context.get(yield* Layer.build(layerOf(parse(url))), SqlClient.SqlClient)
  yield* sql`SELECT 1`
  // The monitor logs in too: it would notice later that its first login gets no answer.
  yield* Effect.sleep("300 millis")
  const end = proxy.swallow()
  yield* Effect.exit(sql`SELECT 2`)
  proxy.link.login = login
  return { end, proxy, sql }
})

/** Waits until a statement succeeds, on a new connection. */
const untilReplaced = (sql: SqlClient.SqlClient) =>
  Effect.promise(() =>
    eventually(() => Effect.runPromise(Effect.exit(sql`SELECT 3`)), (tried) => tried._tag === "Success")
  )

const elapsed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const startedAt = performance.now()
    return Effect.map(Effect.exit(effect), (exit) => ({ exit, milliseconds: performance.now() - startedAt }))
  })

describe("the monitor of the database", () => {
  it.live("closes half-open connections within two seconds, so that the next statement gets a new one", () =>
    Effect.gen(function*() {
      const { proxy, sql } = yield* connect
      yield* sql`SELECT 1`
      proxy.silence()
      const { exit, milliseconds } = yield* elapsed(sql`SELECT 2`)
      assert.strictEqual(exit._tag, "Failure")
      assert.isBelow(milliseconds, 4000)
      yield* untilReplaced(sql)
    }))

  it.live("runs statements two logins after an outage: one of the monitor, and one of the pool", () =>
    Effect.gen(function*() {
      const { end, sql } = yield* unavailable(2500)
      end()
      const { milliseconds } = yield* elapsed(untilReplaced(sql))
      assert.isBelow(milliseconds, 2000 + 2 * 2500)
    }))

  it.live.each([0, 1000])(
    "keeps two connections after an outage with logins of %i ms",
    (login) =>
      Effect.gen(function*() {
        const { end, proxy, sql } = yield* unavailable(login)
        end()
        yield* untilReplaced(sql)
        yield* Effect.sleep(Duration.millis(login + 500))
        yield* Effect.promise(() => eventually(async () => proxy.size, (size) => size === 2))
      })
  )

  it.live("does not interrupt a slow statement while heartbeats succeed", () =>
    Effect.gen(function*() {
      const { sql } = yield* connect
      const { exit } = yield* elapsed(sql`SELECT pg_sleep(2.5)`)
      assert.strictEqual(exit._tag, "Success")
    }))

  it.live("connects to the next host when one is gone, and back", () =>
    Effect.gen(function*() {
      const { other, proxy, sql } = yield* connect
      yield* sql`SELECT 1`
      const restore = yield* Effect.promise(() => proxy.refuse())
      yield* untilReplaced(sql)
      yield* Effect.promise(restore)
      yield* Effect.promise(() => other.refuse())
      yield* untilReplaced(sql)
    }))

  it.live.each(["53300", "08P01", "57P03"])(
    "leaves a host that refuses logins with %s for the next one",
    (code) =>
      Effect.gen(function*() {
        let isFull = false
        const pooler = yield* refusingPooler(code, () => "login", () => isFull ? undefined : inject("postgresUrl"))
        const { proxy } = yield* Proxy.scoped(inject("postgresUrl"))
        const url = inject("postgresUrl").replace(/:\d+\//, `:${portOf(pooler)},127.0.0.1:${proxy.port}/`)
        const sql = Context.get(yield* Layer.build(layerOf(parse(Redacted.make(url)))), SqlClient.SqlClient)
        yield* sql`SELECT 1`
        isFull = true
        // Ends the connections that the first host has accepted.
        yield* Effect.exit(sql`SELECT pg_terminate_backend(pg_backend_pid())`)
        const { milliseconds } = yield* elapsed(untilReplaced(sql))
        assert.isBelow(milliseconds, 4000)
      })
  )

  it.live("reports that no connection is free for two seconds at most after statements get one", () =>
    Effect.gen(function*() {
      let isFull = false
      const pooler = yield* refusingPooler("53300", () => "login", () => isFull ? undefined : inject("postgresUrl"))
      const url = inject("postgresUrl").replace(/:\d+\//, `:${portOf(pooler)}/`)
      const context = yield* Layer.build(layerOf(parse(Redacted.make(url))))
      const sql = Context.get(context, SqlClient.SqlClient)
      const { problem } = Context.get(context, StoreHealth)
      yield* sql`SELECT 1`
      isFull = true
      yield* Effect.exit(sql`SELECT pg_terminate_backend(pg_backend_pid())`)
      yield* Effect.exit(sql`SELECT 2`)
      assert.strictEqual(problem(), "has no free connection")
      isFull = false
      yield* untilReplaced(sql)
      yield* Effect.promise(() => eventually(async () => problem(), (found) => found === null, 4000))
    }))

  it.live("replaces connections that were cut while the server is up", () =>
    Effect.gen(function*() {
      const { proxy, sql } = yield* connect
      yield* sql`SELECT 1`
      // The heartbeat's session ends with all others, but the server accepts new ones.
      proxy.cut()
      yield* untilReplaced(sql)
    }))

  it.live("counts the database as unavailable after two sessions whose first statement failed, not after one", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* problemsOf("08P01", 4, ["statement"]), [
        null,
        null,
        "does not answer",
        "does not answer"
      ])
    }))

  it.live.each<readonly [string, string]>([
    ["08P01", "does not answer"],
    ["53300", "has no free connection"],
    ["XX000", "does not answer"]
  ])(
    "counts it as back only after a response, not when a login fails with %s",
    ([code, problem]) =>
      Effect.gen(function*() {
        const found = yield* problemsOf(code, 5, ["statement", "statement", "login"])
        assert.deepStrictEqual(found.slice(2), ["does not answer", problem, problem])
      })
  )

  it.live("does not count it as unavailable while a pooler is full", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* problemsOf("08P01", 5, ["login"]), Array(5).fill(null))
    }))

  it.live("does not count it as unavailable while the messages of a slow login arrive", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* problemsOf("53300", 3, ["slow login"]), [null, null, null])
    }))

  it.live("does not count it as unavailable when another login fails in the moment in which one succeeds", () =>
    Effect.gen(function*() {
      const { proxy, url } = yield* Proxy.scoped(inject("postgresUrl"))
      proxy.link.login = 400
      const { hosts, ...parsed } = parse(url)
      const others: Array<Socket> = []
      let hasAnswered = false
      /** The first login succeeds while the others, which began because it is slow, fail. */
      const openTo = () => {
        const socket = connectTo({ port: proxy.port, host: "127.0.0.1" })
        if (others.push(socket) > 1) return socket
        const emit = socket.emit.bind(socket)
        socket.emit = (event: string, ...values: ReadonlyArray<unknown>) => {
          if (event !== "data" || hasAnswered || !String(values[0]).includes("SHOW")) return emit(event, ...values)
          hasAnswered = true
          for (const other of others.slice(1)) other.destroy(new Error("reset"))
          process.nextTick(emit, event, ...values)
          return true
        }
        return socket
      }
      const sockets = {
        hosts,
        host: () => hosts[0],
        open: openTo,
        openUnguarded: openTo,
        openTo,
        refuse: () => {},
        allow: () => {},
        patience: { observe: () => {}, roundTrip: () => 0, silence: () => 100 },
        traffic: { received: () => 0, unanswered: () => 0 }
      }
      const options = optionsFor({ hosts, ...parsed }, hosts[0], false)
      const { problem } = yield* DatabaseMonitor.monitor(
        options,
        sockets,
        yield* AdmissionGate.make(1)
      )
      yield* Effect.promise(() => eventually(async () => hasAnswered, (found) => found))
      yield* Effect.sleep("500 millis")
      assert.isNull(problem())
    }))

  it.live("ends its session with a defect of the session's fiber, so that another one begins", () =>
    Effect.gen(function*() {
      const { hosts, ...parsed } = parse(Redacted.make(inject("postgresUrl")))
      const session = DatabaseSession.make(
        optionsFor({ hosts, ...parsed }, hosts[0], false),
        yield* DatabaseSockets.make(hosts),
        {
          nextHost: () => hosts[0],
          isOutage: () => false,
          onFailed: () => Effect.void,
          onSilent: () => Effect.void,
          onOpen: () => Effect.void,
          onAnswer: () => Effect.die(new Error("broken"))
        }
      )
      const exit = yield* Effect.timeout(Effect.exit(session), "5 seconds")
      assert.isTrue(Exit.hasDies(exit))
    }))

  it.effect("begins a login every second or so while a host accepts connections and answers nothing", () =>
    Effect.gen(function*() {
      const silent = yield* Effect.acquireRelease(
        Effect.promise(async () => {
          const server = createServer().listen(0, "127.0.0.1")
          await once(server, "listening")
          return server
        }),
        (server) => Effect.sync(() => server.close())
      )
      const { hosts, ...parsed } = urlOf(silent)
      let elapsed = 0
      const begun: Array<number> = []
      const session = DatabaseSession.make(
        optionsFor({ hosts, ...parsed }, hosts[0], false),
        yield* DatabaseSockets.make(hosts),
        {
          nextHost: () => (begun.push(elapsed), hosts[0]),
          isOutage: () => true,
          onFailed: () => Effect.void,
          onSilent: () => Effect.void,
          onOpen: () => Effect.void,
          onAnswer: () => Effect.void
        }
      )
      yield* Effect.forkScoped(session)
      for (; elapsed < 25_000; elapsed += 100) yield* TestClock.adjust("100 millis")
      const pauses = begun.slice(1).map((at, index) => at - begun[index]!)
      assert.isAtMost(Math.max(...pauses), 1500)
      assert.isAtLeast(begun.length, 17)
    }))

  it.live("logs and reports why statements fail while a pooler refuses every login", () =>
    Effect.gen(function*() {
      const lines: Array<unknown> = []
      const logger = Logger.make(({ message }) => void lines.push(message))
      const pooler = yield* refusingPooler("08P01", () => "login")
      const context = yield* Effect.provide(Layer.build(layerOf(urlOf(pooler))), Logger.layer([logger]))
      yield* Effect.flip(Context.get(context, SqlClient.SqlClient)`SELECT 1`)
      assert.strictEqual(Context.get(context, StoreHealth).problem(), "does not answer")
      yield* Effect.promise(() => eventually(async () => lines, ({ length }) => length > 0))
      const reason = "server login has been failing, try again later"
      assert.deepStrictEqual(lines, [[
        `The database answers, but statements fail: ${reason}. Their requests get 503`
      ]])
    }))
})
