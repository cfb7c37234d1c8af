import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { once } from "node:events"
import { type AddressInfo, connect, createServer, Socket } from "node:net"
import * as AdmissionGate from "../../../src/runtime/postgres/AdmissionGate.ts"
import { monitor } from "../../../src/runtime/postgres/DatabaseMonitor.ts"
import * as Patience from "../../../src/runtime/postgres/Patience.ts"
import { eventually } from "../../kit/Service.ts"

describe("a connection that fails before the server has sent anything", () => {
  it.live.each(["ECONNREFUSED", "EPERM", "EPIPE"])(
    "makes the database unavailable: %s",
    (code) =>
      Effect.gen(function*() {
        const hosts = [{ host: "first", port: 1 }, { host: "second", port: 2 }] as const
        const tried = new Set<string>()
        const openTo = ({ host }: { readonly host: string }) => {
          tried.add(host)
          const socket = new Socket()
          process.nextTick(() => socket.destroy(Object.assign(new Error(`connect ${code}`), { code })))
          return socket
        }
        const gate = yield* AdmissionGate.make(1)
        const sockets = {
          hosts,
          host: () => hosts[0],
          open: () => openTo(hosts[0]),
          openUnguarded: () => openTo(hosts[0]),
          openTo,
          refuse: () => {},
          allow: () => {},
          patience: Patience.make(),
          traffic: { received: () => 0, unanswered: () => 0 }
        }
        const options = { host: "unused", username: "a", password: Redacted.make("a"), database: "a" }
        const { problem } = yield* monitor(options, sockets, gate)
        yield* Effect.promise(() => eventually(async () => problem(), (found) => found !== null))
        assert.strictEqual(problem(), "does not answer")
        yield* Effect.promise(() => eventually(async () => tried.size, (size) => size === 2))
      })
  )
})

describe("a pooler that accepts each login and never answers its first statement", () => {
  it.live("gets new logins after many, since one of them may be answered", () =>
    Effect.gen(function*() {
      let logins = 0
      const pooler = createServer((socket) => {
        socket.on("error", () => {})
        logins++
        // Authentication succeeded; the session's key; ready for a statement.
        socket.once("data", () => socket.write("R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\0\0\0\0\0Z\0\0\0\x05I"))
      }).listen(0, "127.0.0.1")
      yield* Effect.addFinalizer(() => Effect.sync(() => pooler.close()))
      yield* Effect.promise(() => once(pooler, "listening"))
      const host = { host: "127.0.0.1", port: (pooler.address() as AddressInfo).port }
      const openTo = () => connect(host)
      const sockets = {
        hosts: [host] as const,
        host: () => host,
        open: openTo,
        openUnguarded: openTo,
        openTo,
        refuse: () => {},
        allow: () => {},
        patience: { observe: () => {}, roundTrip: () => 0, silence: () => 100 },
        traffic: { received: () => 0, unanswered: () => 0 }
      }
      const options = { ...host, username: "a", password: Redacted.make("a"), database: "a", connectTimeout: 500 }
      const { problem } = yield* monitor(options, sockets, yield* AdmissionGate.make(1))
      yield* Effect.promise(() => eventually(async () => logins, (count) => count > 12))
      assert.strictEqual(problem(), "does not answer")
    }))
})
