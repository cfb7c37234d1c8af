/** A pooler that refuses sessions, for tests of the database monitor. */
import { Effect } from "effect"
import { once } from "node:events"
import { connect, createServer } from "node:net"
import { pipeline } from "node:stream"

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
export type RefusesAt = "login" | "slow login" | "statement"

/** Milliseconds before each of the two messages of a slow login. */
const messageDelay = 300

/**
 * A pooler that refuses each session with an SQLSTATE. `onSession` is called before each of them. Sessions go to the `server`, if it
 * returns a URL.
 */
export const refusingPooler = (
  code: string,
  onSession: () => RefusesAt,
  server: () => string | undefined = () => undefined
) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const pooler = createServer((socket) => {
        socket.on("error", () => {})
        const accepting = server()
        if (accepting !== undefined) {
          const passed = connect(Number(new URL(accepting).port), "127.0.0.1")
          return void pipeline(socket, passed, socket, () => {})
        }
        const refusesAt = onSession()
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
