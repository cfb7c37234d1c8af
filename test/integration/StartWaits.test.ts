/** What a start says while its database does not answer, and that it uses one that begins to. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Logger, Redacted } from "effect"
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import { pipeline } from "node:stream"
import { inject } from "vitest"
import * as Database from "../../src/runtime/postgres/Database.ts"
import { parse } from "../../src/runtime/postgres/DatabaseUrl.ts"
import { eventually, freePort } from "../kit/Service.ts"

/** Messages with the seconds after which each was logged. */
const capture = () => {
  const begun = performance.now()
  const lines: Array<{ readonly message: string; readonly after: number }> = []
  const logger = Logger.make(({ message }) => {
    lines.push({ message: String(message), after: (performance.now() - begun) / 1000 })
  })
  return { lines, layer: Logger.layer([logger]) }
}

const opening = (url: string) =>
  Database.openWhenReachable({
    databaseUrl: parse(Redacted.make(url)),
    databaseDirectUrl: undefined,
    isClustered: false,
    isProduction: false
  })

/** A server that takes connections. Returns its port. */
const serverWith = (onConnection: (socket: Socket) => void) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const server = createServer((socket) => onConnection(socket.on("error", () => {}))).listen(0, "127.0.0.1")
        await once(server, "listening")
        return server
      }),
      (server) => Effect.sync(() => server.close())
    ),
    (server) => (server.address() as AddressInfo).port
  )

/** Bytes of the request for TLS. */
const tlsRequest = 8

const reason = "SFATAL\0VFATAL\0C57P03\0Mit is starting up, wait\0\0"
const starting = Buffer.concat([Buffer.from("E\0\0\0"), Buffer.from([4 + reason.length]), Buffer.from(reason)])

describe("a start whose database", { concurrent: true }, () => {
  it.live.each<readonly [string, (socket: Socket) => void, RegExp]>([
    ["takes connections and never answers", () => {}, /it does not answer$/],
    ["accepts TLS and goes silent", (socket) => socket.once("data", () => socket.write("S")), /it does not answer$/],
    [
      "never answers a login",
      (socket) => socket.on("data", ({ length }) => length === tlsRequest && socket.write("N")),
      /it does not answer$/
    ],
    [
      "starts up",
      (socket) => socket.on("data", ({ length }) => length === tlsRequest ? socket.write("N") : socket.end(starting)),
      /it is starting up, wait$/
    ]
  ])(
    "%s says so after 2 s and then at growing intervals, with the host",
    ([, onConnection, problem]) =>
      Effect.gen(function*() {
        const port = yield* serverWith(onConnection)
        const { layer, lines } = capture()
        const fiber = yield* Effect.forkChild(Effect.provide(opening(`postgres://a:b@127.0.0.1:${port}/t`), layer))
        yield* Effect.promise(() => eventually(async () => lines.length, (count) => count === 3, 20_000))
        yield* Fiber.interrupt(fiber)
        for (const [index, seconds] of [2, 4, 8].entries()) {
          const { after = 0, message = "" } = lines[index] ?? {}
          assert.match(message, new RegExp(`^Waiting for the database at 127.0.0.1:${port} for ${seconds} s: `))
          assert.match(message, problem)
          assert.closeTo(after, seconds, 1)
        }
      })
  )

  it.live.each<readonly [string, (port: number) => string, RegExp]>([
    ["does not listen", (port) => `127.0.0.1:${port}`, /connect ECONNREFUSED/],
    [
      "has a name without an address",
      () => "no-such-host.invalid",
      /at no-such-host.invalid:5432 for 2 s: the name no-such-host.invalid has no address \(E\w+\): check the host of DATABASE_URL/
    ]
  ])("%s says so after 2 s, with the host", ([, hostOf, problem]) =>
    Effect.gen(function*() {
      const host = hostOf(yield* Effect.promise(freePort))
      const { layer, lines } = capture()
      const fiber = yield* Effect.forkChild(Effect.provide(opening(`postgres://a:b@${host}/t`), layer))
      yield* Effect.promise(() => eventually(async () => lines.length, (count) => count > 0, 10_000))
      yield* Fiber.interrupt(fiber)
      assert.include(lines[0]?.message ?? "", `Waiting for the database at ${host}`)
      assert.match(lines[0]?.message ?? "", problem)
    }))

  it.live("refuses the password says so immediately", () =>
    Effect.gen(function*() {
      const url = Object.assign(new URL(inject("postgresUrl")), { password: "wrong" }).href
      const { layer, lines } = capture()
      const { message } = yield* Effect.flip(Effect.provide(opening(url), layer))
      assert.match(message, /^The database cannot be used: password authentication failed for user/)
      assert.isEmpty(lines)
    }))

  it.live("begins to answer is used", () =>
    Effect.gen(function*() {
      let isSilent = true
      const port = yield* serverWith((socket) => {
        if (!isSilent) {
          pipeline(socket, connect(Number(new URL(inject("postgresUrl")).port), "127.0.0.1"), socket, () => {})
        }
      })
      const { layer, lines } = capture()
      const url = Object.assign(new URL(inject("postgresUrl")), { port, search: "?connect_timeout=3" }).href
      const fiber = yield* Effect.forkChild(Effect.provide(opening(url), layer))
      yield* Effect.promise(() => eventually(async () => lines.length, (count) => count > 0))
      isSilent = false
      yield* Fiber.join(fiber)
    }))
})
