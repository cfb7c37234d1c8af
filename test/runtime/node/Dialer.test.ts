/** Hosts with several addresses, of which some answer late or never. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Result } from "effect"
import { execFile, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { createServer, type Server, type Socket } from "node:net"
import * as path from "node:path"
import { dial, tcp } from "../../../src/runtime/node/Dialer.ts"
import { removeDirectory, temporaryDirectory } from "../../kit/directories.ts"
import { Distant } from "../../kit/Distant.ts"

const serve = async (host = "127.0.0.1") => {
  const accepted: Array<Socket> = []
  const server: Server = createServer((socket) => {
    accepted.push(socket.on("error", () => {}))
    socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere"))
  })
  server.listen(0, host)
  await once(server, "listening")
  const address = server.address()
  const port = typeof address === "object" ? address?.port ?? 0 : 0
  return {
    port,
    accepted,
    [Symbol.asyncDispose]: async () => {
      for (const socket of accepted) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    }
  }
}

/** The address that was reached, and the milliseconds that it took. */
const reach = async (addresses: ReadonlyArray<string>, port: number) => {
  const [took, result] = await Effect.runPromise(
    Effect.timed(Effect.result(Effect.timeout(dial(addresses, tcp(port)), "5 seconds")))
  )
  const address = Result.isSuccess(result) ? result.success.remoteAddress : undefined
  if (Result.isSuccess(result)) result.success.destroy()
  return { address, took: Duration.toMillis(took) }
}

/** Of five tries the shortest, in milliseconds: other work on the machine delays some. */
const fastest = async (addresses: ReadonlyArray<string>, port: number) => {
  let least = Infinity
  for (let count = 0; count < 5; count++) least = Math.min(least, (await reach(addresses, port)).took)
  return least
}

/** Runs a program where the name has these addresses, for the system's own resolver too. */
const runWhere = (name: string, addresses: ReadonlyArray<string>, program: string) => {
  const file = path.join(temporaryDirectory(), "hosts")
  fs.writeFileSync(file, addresses.map((address) => `${address} ${name}\n`).join(""))
  const mount = "mount --bind $0 /etc/hosts && exec \"$@\""
  const command = [process.execPath, "--input-type=module-typescript", "-e", program]
  return new Promise<string>((resolve) =>
    execFile("unshare", ["-rm", "sh", "-c", mount, file, ...command], (error, out, err) => {
      removeDirectory(path.dirname(file))
      resolve(error === null ? out : err)
    })
  )
}

const canMount = spawnSync("unshare", ["-rm", "true"]).status === 0

describe("a host with several addresses", () => {
  it("is reached at its second one when the first never answers", async () => {
    await using target = await serve()
    await using _ = await Distant.at("127.0.0.2", target.port)
    const { address, took } = await reach(["127.0.0.2", "127.0.0.1"], target.port)
    assert.strictEqual(address, "127.0.0.1")
    assert.isAtLeast(took, 240)
    assert.isBelow(took, 2500)
  })

  it.each([[["127.0.0.2", "127.0.0.3"]], [["127.0.0.3", "127.0.0.2"]]])(
    "is reached at a distant one when the other never answers: %s",
    async (addresses) => {
      await using target = await serve()
      await using distant = await Distant.at("127.0.0.2", target.port)
      await using _ = await Distant.at("127.0.0.3", target.port)
      const reached = reach(addresses, target.port)
      // Longer than Node lets an attempt take.
      setTimeout(() => distant.release(), 600)
      const { address, took } = await reached
      assert.strictEqual(address, "127.0.0.2")
      assert.isAtLeast(took, 600)
    }
  )

  it("is reached without a pause when the first one refuses", async () => {
    await using target = await serve()
    const refusing = ["127.0.0.2", "::1", "127.0.0.1"]
    assert.strictEqual((await reach(refusing, target.port)).address, "127.0.0.1")
    assert.isBelow(await fastest(refusing, target.port), 200)
  })

  it("keeps one connection, and tries a bounded number of addresses", async () => {
    await using target = await serve("0.0.0.0")
    const many = Array.from({ length: 100 }, (_, index) => `127.0.1.${index}`)
    assert.isBelow(await fastest(many, target.port), 200)
    await using nobody = await serve()
    const refused = await Effect.runPromise(Effect.flip(dial(many, tcp(nobody.port))))
    assert.instanceOf(refused.cause, AggregateError)
    assert.lengthOf((refused.cause as AggregateError).errors, 16)
  })
})

describe.skipIf(!canMount)("a name with several addresses", () => {
  const source = path.resolve(import.meta.dirname, "../../../src/runtime")
  const programs = {
    "a socket of the database": (port: number) => `
      import { open } from "${source}/postgres/DatabaseUrl.ts"
      const socket = open({ host: "far.test", port: ${port} })
      const timer = setTimeout(() => socket.destroy(new Error("too late")), 5000)
      socket.on("error", ({ message }) => console.log(message)).on("close", () => clearTimeout(timer))
      socket.on("connect", () => {
        console.log(socket.remoteAddress)
        socket.destroy()
      })`,
    "an HTTP client": (port: number) => `
      import { Effect } from "${import.meta.resolve("effect")}"
      import { HttpClient } from "${import.meta.resolve("effect/http")}"
      import * as Outgoing from "${source}/node/Outgoing.ts"
      const call = Effect.flatMap(HttpClient.get("http://far.test:${port}/"), ({ text }) => text)
      console.log(await Effect.runPromise(call.pipe(Effect.timeout("5 seconds"), Effect.provide(Outgoing.layer))))`
  }

  it.each(Object.entries(programs))("is reached at a distant one by %s", async (_, program) => {
    await using target = await serve()
    await using distant = await Distant.at("127.0.0.2", target.port)
    await using _never = await Distant.at("127.0.0.3", target.port)
    // The program tries both addresses before one of them answers.
    setTimeout(() => distant.release(), 3000)
    const printed = runWhere("far.test", ["127.0.0.2", "127.0.0.3"], program(target.port))
    assert.match(await printed, /^(127\.0\.0\.2|here)\n$/)
  })
})
