/** Database URLs against a real server with TLS and a Unix socket, which later becomes a standby. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { once } from "node:events"
import * as fs from "node:fs"
import { type AddressInfo, connect as connectTo, createServer } from "node:net"
import * as path from "node:path"
import { pipeline } from "node:stream"
import * as tls from "node:tls"
import { inject, onTestFinished } from "vitest"
import * as Database from "../../src/runtime/postgres/Database.ts"
import * as DatabaseClient from "../../src/runtime/postgres/DatabaseClient.ts"
import { DatabaseSockets } from "../../src/runtime/postgres/DatabaseSockets.ts"
import { parse } from "../../src/runtime/postgres/DatabaseUrl.ts"
import { Proxy } from "../chaos/Proxy.ts"
import { openEmptyDatabase } from "../kit/databases.ts"
import { diagnose } from "../kit/runToEnd.ts"
import { eventually, freePort, internalToken, jwtSecret, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { use, useDirectory } from "../kit/suite.ts"

const directory = useDirectory()
fs.chmodSync(directory, 0o755)

/** A file that the server's user may read: a root process runs Postgres as nobody. */
const share = (name: string) => {
  const file = path.join(directory, name)
  fs.copyFileSync(path.join(import.meta.dirname, "../kit/tls", name), file)
  fs.chmodSync(file, 0o600)
  if (process.getuid?.() === 0) fs.chownSync(file, 65_534, 65_534)
  return file
}

/** One certificate for the authority and the server, with the name `localhost`. */
const certificate = share("cert.pem")
const otherAuthority = path.join(directory, "other.pem")
fs.writeFileSync(otherAuthority, tls.rootCertificates[0] ?? "")
const sockets = path.join(directory, "sockets")
fs.mkdirSync(sockets)
fs.chmodSync(sockets, 0o777)
const server = await startPostgres([
  "ssl=on",
  `ssl_cert_file=${certificate}`,
  `ssl_key_file=${share("key.pem")}`,
  `unix_socket_directories=${sockets}`
])
await use({ close: server.stop })
const { password, port } = new URL(server.url)

const targetOf = (url: string) => ({
  databaseUrl: parse(Redacted.make(url)),
  databaseDirectUrl: undefined,
  isClustered: false,
  isProduction: false
})

const open = (url: string) => Database.open(targetOf(url))

/** The service's client, connected as the examination decided. */
const connect = Effect.fnUntraced(function*(url: string) {
  const { main } = yield* open(url)
  const layer = DatabaseClient.layer({ ...Database.limited(main), maxConnections: 1 }).pipe(
    Layer.provide(DatabaseSockets.layer(main.hosts))
  )
  return Context.get(yield* Layer.build(layer), SqlClient.SqlClient)
})

/** How the service's client is connected, or why it is not. */
const connection = (url: string) =>
  Effect.gen(function*() {
    const sql = yield* connect(url)
    const [row] = yield* sql<{ readonly ssl: boolean; readonly local: boolean }>`
      SELECT ssl, client_addr IS NULL AS local FROM pg_stat_ssl NATURAL JOIN pg_stat_activity WHERE pid = pg_backend_pid()`
    return row?.local === true ? "socket" : row?.ssl === true ? "TLS" : "plain"
  }).pipe(Effect.scoped, Effect.catch(({ message }) => Effect.succeed(message)))

describe("sslmode", () => {
  const root = `sslrootcert=${certificate}`

  it.live.each<readonly [string, string, string]>([
    ["localhost", "sslmode=disable", "^plain$"],
    ["localhost", "sslmode=prefer", "^TLS$"],
    ["localhost", "sslmode=require", "^TLS$"],
    ["127.0.0.1", `sslmode=require&${root}`, "^TLS$"],
    ["localhost", `sslmode=require&sslrootcert=${otherAuthority}`, "self.signed certificate"],
    ["127.0.0.1", `sslmode=verify-ca&${root}`, "^TLS$"],
    ["localhost", `sslmode=verify-ca&sslrootcert=${otherAuthority}`, "self.signed certificate"],
    ["localhost", `sslmode=verify-full&${root}`, "^TLS$"],
    ["127.0.0.1", `sslmode=verify-full&${root}`, "IP: 127.0.0.1 is not in the cert's list"],
    ["localhost", `sslmode=verify-full&sslrootcert=${otherAuthority}`, "self.signed certificate"],
    ["localhost", "sslmode=verify-full", "self.signed certificate"]
  ])("%s with %s", ([host, query, expected]) =>
    Effect.gen(function*() {
      const found = yield* connection(`postgres://postgres:${password}@${host}:${port}/postgres?${query}`)
      assert.match(found, new RegExp(expected))
    }))

  it.live.each<readonly [string, string]>([
    ["sslmode=prefer", "^plain$"],
    ["sslmode=require", "The server does not support TLS"],
    [`sslmode=verify-full&${root}`, "The server does not support TLS"]
  ])("%s with a server that has no TLS", ([query, expected]) =>
    Effect.gen(function*() {
      const found = yield* connection(`${inject("postgresUrl")}?${query}`)
      assert.match(found, new RegExp(expected))
    }))

  it.live.each<readonly [string, string, string]>([
    // This machine needs no proof of its own server.
    ["127.0.0.1", "sslmode=require&channel_binding=require", "^TLS$"],
    // Resolves to this machine, but is none of its addresses.
    [
      "0.0.0.0",
      "sslmode=require&channel_binding=require",
      "self.signed certificate, which is verified in place of channel_binding=require: set sslrootcert"
    ],
    ["localhost", `sslmode=require&channel_binding=require&${root}`, "^TLS$"],
    ["0.0.0.0", `sslaccept=strict&${root}`, "0.0.0.0 is not in the cert's list"],
    ["localhost", "sslmode=verify-full", "self.signed certificate: set sslrootcert to the file"],
    ["localhost", "sslmode=no-verify&schema=public&connection_limit=5&pgbouncer=true&pool_timeout=", "^TLS$"],
    ["localhost", "ssl_min_protocol_version=TLSv1.3&sslnegotiation=direct", "^TLS$"]
  ])("of %s with %s", ([host, query, expected]) =>
    Effect.gen(function*() {
      const found = yield* connection(`postgres://postgres:${password}@${host}:${port}/postgres?${query}`)
      assert.match(found, new RegExp(expected))
    }))

  it.live("has the certificate that a server asks of its clients", () =>
    Effect.gen(function*() {
      const rules = path.join(directory, "hba.conf")
      fs.writeFileSync(
        rules,
        "hostnossl all all all scram-sha-256\nhostssl all all all scram-sha-256 clientcert=verify-ca\n"
      )
      const strict = yield* Effect.acquireRelease(
        Effect.promise(() =>
          startPostgres([
            "ssl=on",
            `ssl_cert_file=${certificate}`,
            `ssl_key_file=${path.join(directory, "key.pem")}`,
            `ssl_ca_file=${certificate}`,
            `hba_file=${rules}`
          ])
        ),
        ({ stop }) => Effect.promise(stop)
      )
      const own = `sslcert=${certificate}&sslkey=${path.join(directory, "key.pem")}`
      assert.match(yield* connection(`${strict.url}?sslmode=require`), /requires a valid client certificate/)
      assert.strictEqual(yield* connection(`${strict.url}?sslmode=require&${own}`), "TLS")
    }))

  it.live("of a URL with a schema leads to it", () =>
    Effect.gen(function*() {
      const database = yield* Effect.acquireRelease(
        Effect.promise(() => openEmptyDatabase(server.url)),
        ({ close }) => Effect.promise(close)
      )
      yield* Effect.promise(() => database.query(`CREATE SCHEMA "My app"`))
      const sql = yield* connect(`${database.url}?schema=My%20app`)
      assert.deepStrictEqual(yield* sql`SELECT current_schema()::text AS schema`, [{ schema: "My app" }])
    }))

  it("that does not verify is named by one warning at start, and by doctor", async () => {
    const database = await use(openEmptyDatabase(server.url), onTestFinished)
    const { pathname } = new URL(database.url)
    // Resolves to this machine, but is none of its addresses.
    const env = {
      DATABASE_URL:
        `postgres://postgres:${password}@0.0.0.0:${port}${pathname}?sslmode=require&connection_limit=5&pgbouncer=true`,
      DATA_DIR: directory
    }
    const service = await Service.start(env)
    await service.stop()
    const warning =
      "DATABASE_URL: the certificate of the server is not verified: set sslmode=verify-full and sslrootcert"
    assert.lengthOf(service.output.split(warning), 2)
    const ignored =
      "DATABASE_URL: the service does not use these parameters and ignores them: connection_limit, pgbouncer"
    assert.lengthOf(service.output.split(ignored), 2)
    assert.match(
      await diagnose({ JWT_SECRET: jwtSecret, INTERNAL_TOKENS: internalToken, ...env }, "database"),
      new RegExp(`^warn Postgres .*${warning}$`)
    )
  })
})

describe("hosts", () => {
  it.live("may be a Unix socket", () =>
    Effect.gen(function*() {
      const url = `postgres://postgres:${password}@/postgres?host=${sockets}&port=${port}&sslmode=require`
      assert.strictEqual(yield* connection(url), "socket")
    }))

  it.live("that close each connection, as a load balancer without a server does, are waited for", () =>
    Effect.gen(function*() {
      let connections = 0
      const balancer = createServer((socket) => {
        socket.on("error", () => {})
        if (++connections < 5) return void socket.end()
        pipeline(socket, connectTo(Number(port), "127.0.0.1"), socket, () => {})
      }).listen(0, "127.0.0.1")
      yield* Effect.promise(() => once(balancer, "listening"))
      yield* Effect.addFinalizer(() => Effect.sync(() => balancer.close()))
      const url = Object.assign(new URL(server.url), { port: (balancer.address() as AddressInfo).port }).href
      yield* Database.openWhenReachable(targetOf(url))
      assert.isAtLeast(connections, 5)
    }))

  it.live("may begin with one that is down", () =>
    Effect.gen(function*() {
      const closed = yield* Effect.promise(freePort)
      const url = `postgres://postgres:${password}@127.0.0.1:${closed},localhost:${port}/postgres`
      assert.strictEqual(yield* connection(`${url}?target_session_attrs=read-write`), "TLS")
    }))

  it.live("are followed when the first one fails and a standby becomes the primary", () =>
    Effect.gen(function*() {
      const { proxy, url } = yield* Proxy.scoped(inject("postgresUrl"))
      // One role with one password on both servers.
      const role = { name: "failover", password: "p" }
      const [primary, standby] = yield* Effect.promise(() =>
        Promise.all([openEmptyDatabase(), openEmptyDatabase(server.url)])
      )
      for (const { query } of [primary, standby]) {
        yield* Effect.promise(() => query(`CREATE ROLE ${role.name} SUPERUSER LOGIN PASSWORD '${role.password}'`))
      }
      const [{ data_directory } = { data_directory: "" }] = yield* Effect.promise(() =>
        standby.query<{ data_directory: string }>("SHOW data_directory")
      )
      fs.writeFileSync(path.join(data_directory, "standby.signal"), "")
      yield* Effect.promise(server.restartImmediately)
      const { host } = new URL(Redacted.value(url))
      const sql = yield* connect(
        `postgres://${role.name}:${role.password}@${host},localhost:${port}/postgres?target_session_attrs=read-write`
      )
      const serverPort = Effect.map(
        sql<{ readonly port: number }>`SELECT current_setting('port')::int AS port`,
        ([row]) => row?.port
      )
      assert.notStrictEqual(yield* serverPort, Number(port))
      yield* Effect.promise(() => proxy.refuse())
      yield* Effect.promise(() =>
        eventually(() => Effect.runPromise(Effect.exit(serverPort)), ({ _tag }) => _tag === "Failure")
      )
      yield* Effect.promise(() => standby.query("SELECT pg_promote()"))
      const after = yield* Effect.promise(() =>
        eventually(() => Effect.runPromise(Effect.option(serverPort)), ({ _tag }) => _tag === "Some")
      )
      assert.deepInclude(after, { value: Number(port) })
      yield* Effect.promise(async () => {
        await primary.query(`DROP ROLE ${role.name}`)
        await primary.close()
        await standby.close()
      })
    }))
})
