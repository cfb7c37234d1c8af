/**
 * An address of loopback that answers late or never: its process is stopped and its queue of new connections is full, so that the kernel
 * drops further ones, whose sender repeats them after a second. Once released it passes connections on.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { connect, type Socket } from "node:net"

const forwarder = `
  const { connect, createServer } = require("node:net")
  const [host, port, target] = process.argv.slice(1)
  const server = createServer((client) => {
    const socket = connect(Number(target), "127.0.0.1")
    client.on("error", () => socket.destroy()).on("close", () => socket.destroy()).pipe(socket)
    socket.on("error", () => client.destroy()).on("close", () => client.destroy()).pipe(client)
  })
  server.listen({ host, port: Number(port), backlog: 1 }, () => process.stdout.write("listening"))
`

/** Milliseconds after which a connection on loopback counts as dropped. */
const patience = 150

export class Distant {
  readonly #process: ChildProcess
  readonly #fillers: ReadonlyArray<Socket>

  private constructor(process: ChildProcess, fillers: ReadonlyArray<Socket>) {
    this.#process = process
    this.#fillers = fillers
  }

  /** Takes the port of `target` at another address of loopback. */
  static async at(host: string, port: number) {
    const child = spawn(process.execPath, ["-e", forwarder, host, String(port), String(port)], {
      stdio: ["ignore", "pipe", "inherit"]
    })
    await once(child.stdout, "data")
    child.kill("SIGSTOP")
    const fillers: Array<Socket> = []
    for (let isFull = false; !isFull;) {
      const socket = connect(port, host).on("error", () => {})
      fillers.push(socket)
      isFull = await Promise.race([
        once(socket, "connect").then(() => false),
        new Promise<true>((resolve) => setTimeout(() => resolve(true), patience))
      ])
    }
    return new Distant(child, fillers)
  }

  /** It answers from now on. */
  release() {
    for (const socket of this.#fillers) socket.destroy()
    this.#process.kill("SIGCONT")
  }

  async close() {
    this.release()
    this.#process.kill("SIGKILL")
    if (this.#process.exitCode === null && this.#process.signalCode === null) await once(this.#process, "exit")
  }

  [Symbol.asyncDispose]() {
    return this.close()
  }
}
