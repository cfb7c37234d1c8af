import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { once } from "node:events"
import { type AddressInfo, createServer, type Server } from "node:net"
import { inject } from "vitest"
import * as DatabaseClient from "../../src/runtime/postgres/DatabaseClient.ts"
import { DatabaseSockets } from "../../src/runtime/postgres/DatabaseSockets.ts"
import { type DatabaseUrl, optionsFor, parse } from "../../src/runtime/postgres/DatabaseUrl.ts"
import { StoreHealth } from "../../src/services/operations/Readiness.ts"
import { Proxy } from "../chaos/Proxy.ts"
import { eventually } from "../kit/Service.ts"

const layerOf = (parsed: DatabaseUrl) =>
  DatabaseClient.layer({ ...optionsFor(parsed, parsed.hosts[0], false), maxConnections: 2 }).pipe(
    Layer.provide(DatabaseSockets.layer(parsed.hosts))
  )

/** One message of the protocol of Postgres. */
const message = (type: string, body: string) => {
  const length = Buffer.alloc(4)
  length.writeInt32BE(4 + body.length)
  return Buffer.concat([Buffer.from(type), length, Buffer.from(body, "latin1")])
}

const ready = Buffer.concat([message("R", "\0\0\0\0"), message("K", "\0".repeat(8)), message("Z", "I")])
const refusal = (code: string) =>
  message("E", `SFATAL\0VFATAL\0C${code}\0Mserver login has been failing, try again later\0\0`)

/** When a pooler refuses a session: at its login, at the end of a slow one, or at its first statement. */
type RefusesAt = "login" | "slow login" | "statement"

/** Milliseconds before each of the two messages of a slow login. */
const messageDelay = 300

/** A pooler that refuses each session with an SQLSTATE. `onSession` is called before each of them. */
const refusingPooler = (code: string, onSession: () => RefusesAt) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const pooler = createServer((socket) => {
        const refusesAt = onSession()
        socket.on("error", () => {})
        socket.once("data", () => {
          if (refusesAt === "login") return socket.end(refusal(code))
          if (refusesAt === "slow login") {
            setTimeout(() => socket.write(message("R", "\0\0\0\0")), messageDelay)
            return setTimeout(() => socket.end(refusal(code)), 2 * messageDelay)
          }
          socket.write(ready)
          socket.once("data", () => socket.end(refusal(code)))
        })
      }).listen(0, "127.0.0.1")
      await once(pooler, "listening")
      return pooler
    }),
    (pooler) => Effect.sync(() => pooler.close())
  )

const urlOf = (pooler: Server) =>
  parse(Redacted.make(`postgres://someone@127.0.0.1:${(pooler.address() as AddressInfo).port}/tasks`))

/** The problem before each of `count` sessions, which a pooler refuses as `refusals` says; the last one repeats. */
const problemsOf = Effect.fnUntraced(function*(code: string, count: number, refusals: ReadonlyArray<RefusesAt>) {
  let health: typeof StoreHealth.Service | undefined
  const found: Array<string | null> = []
  const pooler = yield* refusingPooler(code, () => {
    found.push(health?.problem() ?? null)
    return refusals[found.length - 1] ?? refusals.at(-1) ?? "statement"
  })
  health = Context.get(yield* Layer.build(layerOf(urlOf(pooler))), StoreHealth)
  yield* Effect.promise(() => eventually(async () => found, ({ length }) => length >= count, 5000))
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

/** Waits until a statement succeeds, on a new connection. */
const untilReplaced = (sql: SqlClient.SqlClient) =>
  Effect.promise(() =>
    eventually(() => Effect.runPromise(Effect.exit(sql`SELECT 3`)), (tried) => tried._tag === "Success", 5000)
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
      assert.isBelow(milliseconds, 3000)
      yield* untilReplaced(sql)
    }))

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

  it.live("logs and reports why statements fail while a pooler refuses every login", () =>
    Effect.gen(function*() {
      const lines: Array<unknown> = []
      const logger = Logger.make(({ message }) => void lines.push(message))
      const pooler = yield* refusingPooler("08P01", () => "login")
      const context = yield* Effect.provide(Layer.build(layerOf(urlOf(pooler))), Logger.layer([logger]))
      yield* Effect.flip(Context.get(context, SqlClient.SqlClient)`SELECT 1`)
      assert.strictEqual(Context.get(context, StoreHealth).problem(), "does not answer")
      yield* Effect.promise(() => eventually(async () => lines, ({ length }) => length > 0, 3000))
      const reason = "server login has been failing, try again later"
      assert.deepStrictEqual(lines, [[
        `The database answers, but statements fail: ${reason}. Their requests get 503`
      ]])
    }))
})
