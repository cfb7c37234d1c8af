import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlError } from "effect/sql"
import { once } from "node:events"
import { type AddressInfo, connect, createServer } from "node:net"
import { rootCauseMessage } from "../../../src/services/telemetry/RootCause.ts"

/** A port on which nothing listens. */
const closedPort = Effect.promise(async () => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  server.close()
  return port
})

it.effect("the root cause of a failed connection to a host with several addresses has the failure of each", () =>
  Effect.gen(function*() {
    const port = yield* closedPort
    const cause = yield* Effect.callback<unknown>((resume) => {
      connect({
        port,
        host: "two-addresses.example",
        lookup: (_host, _options, found) =>
          found(null, [{ address: "::1", family: 6 }, { address: "127.0.0.1", family: 4 }])
      }).once("error", (error) => resume(Effect.succeed(error)))
    })
    const reason = new SqlError.ConnectionError({ cause, message: "Failed to connect", operation: "connect" })
    assert.match(
      rootCauseMessage(new SqlError.SqlError({ reason })),
      // Without IPv6 the first address is not available.
      new RegExp(`^connect E[A-Z]+ ::1:${port}.*; connect ECONNREFUSED 127\\.0\\.0\\.1:${port}$`)
    )
  }))
