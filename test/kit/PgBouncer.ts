/** PgBouncer in front of the Postgres of the tests. It is not on npm: tests are skipped where it is missing. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { connect } from "node:net"
import * as path from "node:path"
import { removeDirectory, temporaryDirectory } from "./directories.ts"
import { eventually, freePort } from "./Service.ts"

const executable = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].find((file) => fs.existsSync(file))

export const hasPgBouncer = executable !== undefined

const isListening = (port: number) => {
  const socket = connect(port, "127.0.0.1")
  return once(socket, "connect").then(() => true, () => false).finally(() => socket.destroy())
}

/** Starts a pooler of all databases of a server, with default settings but for its mode. */
export const startPgBouncer = async (server: string, mode: "session" | "transaction") => {
  const { hostname, password, port: serverPort, username } = new URL(server)
  const directory = temporaryDirectory()
  const port = await freePort()
  const file = path.join(directory, "pgbouncer.ini")
  fs.chmodSync(directory, 0o755)
  fs.writeFileSync(
    file,
    `[databases]
* = host=${hostname} port=${serverPort} user=${username} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
`
  )
  // It refuses to run as root.
  const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
  const child = spawn(executable ?? "", [file], { ...user, cwd: "/", stdio: "ignore" })
  const exited = once(child, "exit")
  await eventually(() => isListening(port), (listening) => listening)
  return {
    /** Without a database. */
    url: `postgres://${username}@127.0.0.1:${port}`,
    close: async () => {
      child.kill("SIGKILL")
      await exited
      removeDirectory(directory)
    }
  }
}
