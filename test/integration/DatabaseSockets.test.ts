import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber } from "effect"
import { Reactivity } from "effect/reactivity"
import { TestClock } from "effect/testing"
import type { Socket } from "node:net"
import { inject } from "vitest"
import { DatabaseSockets } from "../../src/runtime/postgres/DatabaseSockets.ts"
import { parse } from "../../src/runtime/postgres/DatabaseUrl.ts"
import { Proxy } from "../chaos/Proxy.ts"
import { eventually } from "../kit/Service.ts"

/** Two connections through a proxy, used and then idle. The checks follow TestClock, the driver the live clock. */
const make = Effect.gen(function*() {
  const { proxy, url } = yield* Proxy.scoped(inject("postgresUrl"))
  const { open: connect } = yield* DatabaseSockets.make(parse(url).hosts)
  const sockets: Array<Socket> = []
  const sql = yield* TestClock.withLive(PgClient.make({
    url,
    maxConnections: 2,
    multiplex: true,
    multiplexConcurrency: 1,
    stream: () => {
      const socket = connect()
      sockets.push(socket)
      return socket
    }
  }))
  const query = (text: string) => TestClock.withLive(sql.unsafe(text))
  const written = async () => sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0)
  /** Starts a statement and waits until it has been sent. */
  const start = Effect.fnUntraced(function*(text: string) {
    const before = yield* Effect.promise(written)
    const fiber = yield* Effect.forkScoped(Effect.exit(query(text)))
    yield* Effect.promise(() => eventually(written, (now) => now > before))
    return fiber
  })
  yield* Effect.all([query("SELECT pg_sleep(0.1)"), query("SELECT pg_sleep(0.1)")], { concurrency: 2 })
  assert.strictEqual(sockets.length, 2)
  yield* TestClock.adjust("1 second")
  return { proxy, sockets, query, start }
}).pipe(Effect.provide(Reactivity.layer))

const isFaultOfStore = (exit: Exit.Exit<unknown, { readonly isRetryable: boolean }>) =>
  Exit.isFailure(exit) && exit.cause.reasons.every((reason) => Cause.isFailReason(reason) && reason.error.isRetryable)

describe("DatabaseSockets", () => {
  it.effect("fails a statement on a silent connection after 12 s with a retryable error", () =>
    Effect.gen(function*() {
      const { proxy, sockets, start } = yield* make
      proxy.silence()
      const first = yield* start("SELECT 1")
      yield* TestClock.adjust("11 seconds")
      assert.isUndefined(first.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.isTrue(isFaultOfStore(yield* Fiber.join(first)))
      assert.isTrue(sockets[0]!.destroyed || sockets[1]!.destroyed)
    }))

  it.effect("gives a slow statement the full timeout, however long its connection was idle", () =>
    Effect.gen(function*() {
      const { start } = yield* make
      yield* TestClock.adjust("11 seconds")
      const asked = yield* start("SELECT pg_sleep(0.3)")
      yield* TestClock.adjust("11 seconds")
      assert.isTrue(Exit.isSuccess(yield* Fiber.join(asked)))
    }))

  it.effect("closes idle connections, and the pool opens new ones", () =>
    Effect.gen(function*() {
      const { query, sockets } = yield* make
      yield* TestClock.adjust("11 seconds")
      assert.isTrue(sockets.every(({ destroyed }) => !destroyed))
      yield* TestClock.adjust("1 second")
      assert.isTrue(sockets.every(({ destroyed }) => destroyed))
      assert.deepStrictEqual(yield* query("SELECT 1 AS n"), [{ n: 1 }])
    }))
})
