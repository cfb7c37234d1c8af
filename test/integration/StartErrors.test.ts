/** The messages when the service cannot start: one line and the exit code 1, and the same from `doctor`. */
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import * as fs from "node:fs"
import * as http from "node:http"
import { type AddressInfo, createServer, type Socket } from "node:net"
import * as path from "node:path"
import { assert, describe, it, onTestFinished } from "vitest"
import { openEmptyDatabase } from "../kit/databases.ts"
import { diagnose, type Ended, runHere, runToEnd } from "../kit/runToEnd.ts"
import { complete, ScriptedCore } from "../kit/ScriptedCore.ts"
import { freePort, internalToken, jwtSecret, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { use, useDirectory } from "../kit/suite.ts"

const directory = useDirectory()
const database = await use(openEmptyDatabase())
// As Postgres 15 and later do.
await database.query("REVOKE CREATE ON SCHEMA public FROM PUBLIC")

const settings = async (more: Readonly<Record<string, string>>) => ({
  DATABASE_URL: database.url,
  DATA_DIR: directory,
  JWT_SECRET: jwtSecret,
  INTERNAL_TOKENS: internalToken,
  PORT: String(await freePort()),
  ...more
})

/** The output of `serve` before it exits. `migrate` prints the same about a database, and `doctor` about every check. */
const refusal = async (more: Readonly<Record<string, string>>, check = "database") => {
  const env = await settings(more)
  const [{ code, err }, finding, migrated] = await Promise.all([
    runToEnd(["serve"], env),
    diagnose(env, check),
    check === "database" ? runHere(["migrate"], env) : undefined
  ])
  assert.strictEqual(code, 1)
  assert.strictEqual(finding, `FAIL ${err}`)
  if (migrated !== undefined) {
    assert.deepInclude(migrated, { code, err })
    assert.lengthOf(err.split("\n"), 1)
  }
  return err
}

/** The end of `migrate` at a server that is not Postgres. */
const migrateAt = async (answer: (socket: Socket) => unknown) => {
  const server = createServer((socket) => void answer(socket.on("error", () => {}))).listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  const env = await settings({ DATABASE_URL: `postgres://a:b@127.0.0.1:${port}/tasks` })
  return runToEnd(["migrate"], env).finally(() => server.close())
}

// These wait 20 s for a database that may be starting, so they begin before the tests.
const atNothing = migrateAt((socket) => socket.once("data", () => socket.end()))
const nobody = await settings({ DATABASE_URL: `postgres://user@127.0.0.1:${await freePort()}/x` })
const serveNobody = runToEnd(["serve"], nobody)
const migrateNobody = runToEnd(["migrate"], nobody)

/** A role that may log in to the database and use its tables, but not create any. */
const addRole = async (grants: ReadonlyArray<string>) => {
  const role = `role_${randomBytes(6).toString("hex")}`
  for (const statement of [`CREATE ROLE ${role} LOGIN PASSWORD 'p'`, ...grants.map((grant) => `${grant} TO ${role}`)]) {
    await database.query(statement)
  }
  const url = new URL(database.url)
  url.username = role
  url.password = "p"
  return {
    role,
    url: url.href,
    drop: () => database.query(`DROP OWNED BY ${role}; `).then(() => database.query(`DROP ROLE ${role}`))
  }
}

describe("a role that may not create tables", () => {
  it("is reported with the way to migrate, and works once the schema is up to date, in a cluster too", async () => {
    const { drop, role, url } = await addRole([])
    onTestFinished(async () => void await drop())
    assert.match(
      await refusal({ DATABASE_URL: url }),
      new RegExp(
        `the role "${role}" may not create tables in the schema "public", and the schema is at version 0`
      )
    )
    assert.strictEqual((await runHere(["migrate"], await settings({}))).code, 0)
    await database.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ${role}`)
    await database.query(`GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ${role}`)
    const core = await use(new ScriptedCore().listen(), onTestFinished)
    const service = await Service.start({
      DATABASE_URL: url,
      CORE_URL: core.url,
      CLUSTER: "on",
      CLUSTER_PORT: String(await freePort())
    })
    const token = await mint("someone")
    const { body: { uuid } } = await service.create(token, "x")
    await complete(await core.run(uuid))
    await service.until(token, uuid, "completed")
    await service.stop()
    assert.notMatch(service.output, /permission denied|ERROR/)
  })
})

describe("a role that may not migrate tables in a later schema of its search_path", () => {
  it("is reported with the schema in which it lacks the right", async () => {
    const { drop, role, url } = await addRole([])
    onTestFinished(async () => void await drop())
    const own = await use(openEmptyDatabase(), onTestFinished)
    assert.strictEqual((await runHere(["migrate"], await settings({ DATABASE_URL: own.url }))).code, 0)
    await own.query("DELETE FROM async_task_service_versions")
    await own.query("CREATE SCHEMA app")
    await own.query(`GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${role}`)
    await own.query(`GRANT USAGE ON SCHEMA app TO ${role}`)
    const { pathname } = new URL(own.url)
    const { href } = Object.assign(new URL(url), { pathname, search: "?options=-csearch_path%3Dapp,public" })
    assert.include(
      await refusal({ DATABASE_URL: href }),
      `the role "${role}" may not create tables in the schema "app", and the schema is at version 0 of `
    )
    await own.query(`GRANT CREATE ON SCHEMA app TO ${role}`)
    assert.include(
      await refusal({ DATABASE_URL: href }),
      `the role "${role}" may not change the tables in the schema "public", and the schema is at version 0 of `
    )
  })
})

describe("a database", () => {
  it("that is read-only is reported", async () => {
    const { drop, role, url } = await addRole(["GRANT SELECT ON ALL TABLES IN SCHEMA public"])
    onTestFinished(async () => void await drop())
    await database.query(`ALTER ROLE ${role} SET default_transaction_read_only = on`)
    assert.match(
      await refusal({ DATABASE_URL: url }),
      new RegExp(
        `it is read-only: .* write ALTER ROLE "${role}" IN DATABASE "[^"]+" SET default_transaction_read_only = off$`
      )
    )
  })

  it("with another encoding than UTF8 is reported", async () => {
    const name = `latin_${randomBytes(6).toString("hex")}`
    await database.query(`CREATE DATABASE ${name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`)
    onTestFinished(async () => void await database.query(`DROP DATABASE ${name}`))
    const url = new URL(database.url)
    url.pathname = name
    assert.match(
      await refusal({ DATABASE_URL: url.href }),
      new RegExp(`the encoding of "${name}" is LATIN1: create it with ENCODING 'UTF8'`)
    )
  })

  it.each(["async_task_service_schema", "async_task_service_migrations"])(
    "that was made before the first release, with the ledger %s, is refused and left as it is",
    async (ledger) => {
      const own = await use(openEmptyDatabase(), onTestFinished)
      await own.query(`CREATE TABLE ${ledger} (owner text, version integer)`)
      // A current one by its numbers.
      await own.query(`INSERT INTO ${ledger} SELECT 'core', generate_series(1, 10)`)
      assert.include(
        await refusal({ DATABASE_URL: own.url }),
        `it was made before the first release, as its table ${ledger} shows, and cannot be converted: set DATABASE_URL to an empty`
      )
      assert.isEmpty(await own.query("SELECT FROM pg_class WHERE relname IN ('tasks', 'async_task_service_versions')"))
    }
  )

  it("with a trigger of an extension that this version does not have is refused with the statement that drops it", async () => {
    const own = await use(openEmptyDatabase(), onTestFinished)
    assert.strictEqual((await runHere(["migrate"], await settings({ DATABASE_URL: own.url }))).code, 0)
    await own.query(`CREATE FUNCTION gone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`)
    const add = (name: string) =>
      own.query(`CREATE TRIGGER ${name} AFTER INSERT ON task_events FOR EACH STATEMENT EXECUTE FUNCTION gone()`)
    await add("of_somebody_else")
    assert.strictEqual((await runHere(["migrate"], await settings({ DATABASE_URL: own.url }))).code, 0)
    await add("async_task_service_gone")
    const message = await refusal({ DATABASE_URL: own.url })
    assert.include(
      message,
      "the trigger async_task_service_gone on task_events belongs to an extension that this version"
    )
    const [statement = ""] = /DROP TRIGGER .*/.exec(message) ?? []
    await own.query(statement)
    assert.strictEqual((await runHere(["migrate"], await settings({ DATABASE_URL: own.url }))).code, 0)
  })

  it("with a newer schema works, and doctor says so", async () => {
    assert.strictEqual((await runHere(["migrate"], await settings({}))).code, 0)
    await database.query("INSERT INTO async_task_service_versions (owner, version) VALUES ('core', 9999)")
    onTestFinished(async () =>
      void await database.query("DELETE FROM async_task_service_versions WHERE version = 9999")
    )
    assert.match(
      await diagnose(await settings({}), "database"),
      /^warn .*the schema is at version 9999, newer than this release/
    )
    assert.strictEqual((await runHere(["migrate"], await settings({}))).code, 0)
  })

  it("whose schema is another for DATABASE_DIRECT_URL is reported, as are the faults of that URL by its name", async () => {
    const schema = `schema_${randomBytes(6).toString("hex")}`
    await database.query(`CREATE SCHEMA ${schema}`)
    onTestFinished(async () => void await database.query(`DROP SCHEMA ${schema}`))
    assert.match(
      await refusal({ DATABASE_DIRECT_URL: `${database.directUrl}?options=-csearch_path%3D${schema}` }),
      new RegExp(`DATABASE_DIRECT_URL leads to the schema "${schema}", DATABASE_URL to "public"`)
    )
    assert.match(
      await refusal({ DATABASE_DIRECT_URL: `${database.directUrl}_missing` }),
      /DATABASE_DIRECT_URL: database ".*_missing" does not exist$/
    )
  })

  it("whose next migration DATABASE_DIRECT_URL would create in another schema is reported before it", async () => {
    const own = await use(openEmptyDatabase(), onTestFinished)
    const shadowed = {
      DATABASE_URL: own.directUrl,
      DATABASE_DIRECT_URL: `${own.directUrl}?options=-csearch_path%3Dapp,public`
    }
    assert.strictEqual((await runHere(["migrate"], await settings({ DATABASE_URL: own.directUrl }))).code, 0)
    await own.query("CREATE SCHEMA app")
    assert.match(await diagnose(await settings(shadowed), "database"), /^ok /)
    await own.query("DELETE FROM async_task_service_versions")
    assert.match(
      await refusal(shadowed),
      /DATABASE_DIRECT_URL leads to the schema "app", DATABASE_URL to "public": both need the same search_path$/
    )
  })

  it("with a cluster in another schema works, and doctor says why the nodes may own no shards", async () => {
    const schema = `schema_${randomBytes(6).toString("hex")}`
    await database.query(`CREATE SCHEMA ${schema}`)
    onTestFinished(async () => void await database.query(`DROP SCHEMA ${schema} CASCADE`))
    const clustered = await settings({ CLUSTER: "on" })
    assert.notMatch(await diagnose(clustered, "database"), /has tables of a cluster too/)
    await database.query(`CREATE TABLE ${schema}.cluster_runners ()`)
    assert.match(
      await diagnose(clustered, "database"),
      new RegExp(`^warn .*the schema "${schema}" of this database has tables of a cluster too`)
    )
    assert.notMatch(await diagnose(await settings({}), "database"), /has tables of a cluster too/)
  })

  it("that is a standby is reported, and the primary among several hosts is used", async () => {
    const server = await startPostgres()
    onTestFinished(server.stop)
    const standby = await use(openEmptyDatabase(server.url), onTestFinished)
    const role = `role_${randomBytes(6).toString("hex")}`
    for (const { query } of [database, standby]) await query(`CREATE ROLE ${role} SUPERUSER LOGIN PASSWORD 'p'`)
    onTestFinished(async () => void await database.query(`DROP ROLE ${role}`))
    const [{ data_directory } = { data_directory: "" }] = await standby.query<{ data_directory: string }>(
      "SHOW data_directory"
    )
    const signal = path.join(data_directory, "standby.signal")
    fs.writeFileSync(signal, "")
    onTestFinished(() => {
      fs.rmSync(signal)
      return server.restartImmediately()
    })
    await server.restartImmediately()
    const url = `postgres://${role}:p@127.0.0.1:${server.port}/postgres`
    assert.match(await refusal({ DATABASE_URL: url }), /it is a standby, which refuses writes: use the primary/)
    const { host, pathname } = new URL(database.url)
    const both = `postgres://${role}:p@127.0.0.1:${server.port},${host}${pathname}`
    const env = await settings({ DATABASE_URL: both })
    const service = await Service.start(env, Number(env.PORT))
    await service.stop()
    assert.match(
      await refusal({ DATABASE_URL: `${both}?target_session_attrs=standby` }, "settings"),
      /target_session_attrs=standby/
    )
  })

  it.each([
    ["password", "the server requires a password, and the URL has none"],
    ["username", "the URL names no user"]
  ])("whose URL has no %s is reported with an example of one", async (part, problem) => {
    const url = Object.assign(new URL(database.directUrl), { [part]: "" }).href
    const { err } = await runHere(["migrate"], await settings({ DATABASE_URL: url }))
    const example = "as in postgres://user:password@host:5432/database"
    assert.strictEqual(err, `The database cannot be used: ${problem}: set DATABASE_URL ${example}`)
  })

  it.each<readonly [string, () => Promise<Ended>]>([
    ["HTTP", () => migrateAt((socket) => socket.once("data", () => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")))],
    ["SSH", () => migrateAt((socket) => socket.write("SSH-2.0-OpenSSH_9.9\r\n"))],
    ["nothing", () => atNothing]
  ])("whose server speaks %s is reported with the setting to check", async (_, ended) => {
    assert.strictEqual(
      (await ended()).err,
      "The database cannot be used: the server does not answer as Postgres does: check the host and port of DATABASE_URL"
    )
  })

  it("that does not listen is reported without a stack trace", async () => {
    const { code, err } = await serveNobody
    assert.strictEqual(code, 1)
    assert.match(err, /^[^\n]*connect ECONNREFUSED[^\n]*$/)
    assert.deepInclude(await migrateNobody, { code, err })
    assert.strictEqual(await diagnose(nobody, "database"), `FAIL ${err}`)
  })
})

describe("doctor", () => {
  it.each([["core", "CORE_URL"], ["backend", "ASSISTANT_BACKEND_URL"]])(
    "reports a %s that is away, also behind a gateway",
    async (check, setting) => {
      let status = 404
      const server = http.createServer((_, response) => response.writeHead(status).end()).listen(0, "127.0.0.1")
      onTestFinished(() => void server.close())
      await once(server, "listening")
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const found = async () => diagnose(await settings({ [setting]: url }), check)
      assert.strictEqual(await found(), `ok ${url} is reachable`)
      for (status of [502, 503, 504]) assert.strictEqual(await found(), `FAIL ${url} answers ${status}`)
    }
  )

  it.each([
    ["core", "CORE_URL", "/base"],
    ["backend", "ASSISTANT_BACKEND_URL", "/base"],
    ["keys", "JWT_JWKS_URL", "/base?key=s3cret"],
    ["tokens of schedules", "TOKEN_URL", "/base?key=s3cret"]
  ])("shows the URL of %s without what may be secret", async (check, setting, path) => {
    let status = 200
    const server = http.createServer((_, response) => response.writeHead(status).end()).listen(0, "127.0.0.1")
    onTestFinished(() => void server.close())
    await once(server, "listening")
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
    const found = async () =>
      diagnose(
        await settings({ JWT_SECRET: check === "keys" ? "" : jwtSecret, [setting]: `http://user:pa55@${host}${path}` }),
        check
      )
    assert.strictEqual(await found(), `ok http://${host}/base is reachable`)
    status = 503
    const failure = await found()
    assert.match(failure, /^FAIL .*503/)
    assert.notMatch(failure, /pa55|s3cret/)
  })

  it("reports why the service is not ready in one line, also behind a gateway", async () => {
    const notReady = JSON.stringify({
      message: "Not ready: database, membership",
      checks: { database: "has a full disk", schema: "ok", membership: "drained" }
    })
    let body = notReady
    const server = http.createServer((_, response) => response.writeHead(503).end(body)).listen(0, "127.0.0.1")
    onTestFinished(() => void server.close())
    await once(server, "listening")
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const found = async () => diagnose(await settings({ TASK_SERVICE_URL: url }), "service")
    assert.strictEqual(await found(), `FAIL ${url} is not ready: database: has a full disk; membership: drained`)
    for (body of ["<html>", "{}"]) assert.strictEqual(await found(), `FAIL ${url} answers 503`)
  })
})

describe("a setting", () => {
  it.each(["/proc/nowhere/data", "/dev/null/data"])("DATA_DIR=%s is reported once", async (DATA_DIR) => {
    const env = { DATA_DIR, PORT: String(await freePort()) }
    const { code, err } = await runToEnd(["serve"], env)
    assert.match(err, /^The settings cannot be used:\n {2}DATA_DIR: E[A-Z]+: .*$/)
    assert.strictEqual(code, 1)
    assert.match(await diagnose(env, "settings"), /^FAIL /)
  })

  it("that resembles a known one causes a warning, and other variables do not", async () => {
    const env = await settings({ MAX_ACTIV_TASKS: "7", HOME: "/root", PORTS: "1", KUBERNETES_PORT: "tcp://x" })
    const line = "MAX_ACTIV_TASKS is not a setting: did you mean MAX_ACTIVE_TASKS?"
    assert.strictEqual(await diagnose(env, "settings"), `warn valid, development mode; ${line}`)
    const service = await Service.start(env, Number(env["PORT"]))
    await service.stop()
    assert.include(service.output, line)
    assert.lengthOf(service.output.match(/is not a setting/g) ?? [], 1)
  })

  it("ASSISTANTS_FILE that cannot be used is reported with the others, before anything starts", async () => {
    const file = path.join(directory, "broken.yaml")
    fs.writeFileSync(file, "assistants:\n  - id: 0\n  - [\n")
    const wrong = { ASSISTANTS_FILE: "/nowhere.yaml", RETENTION: "0 days" }
    const err = await refusal(wrong, "settings")
    assert.match(
      err,
      /^The settings cannot be used:\n {2}RETENTION: must be positive, .*\n {2}ASSISTANTS_FILE: \/nowhere\.yaml: cannot be read$/
    )
    const DATA_DIR = path.join(directory, "embedded")
    const { code, err: ofBroken } = await runToEnd(["serve"], { DATA_DIR, ASSISTANTS_FILE: file })
    assert.strictEqual(code, 1)
    assert.match(ofBroken, new RegExp(`^The settings cannot be used:\n {2}ASSISTANTS_FILE: ${file}:\\d+: `))
    assert.isFalse(fs.existsSync(path.join(DATA_DIR, "postgres")))
    const unused = await diagnose(
      await settings({ ...wrong, RETENTION: "", ASSISTANT_BACKEND_URL: "http://b" }),
      "settings"
    )
    assert.match(unused, /^(ok|warn) +valid/)
  })

  it("JWT_JWKS_URL that does not respond is reported in one line, and by doctor", async () => {
    const env = await settings({ JWT_SECRET: "", JWT_JWKS_URL: `http://127.0.0.1:${await freePort()}/keys` })
    assert.match(await diagnose(env, "keys"), /^FAIL connect ECONNREFUSED/)
    const service = await Service.start(env, Number(env["PORT"]))
    await service.logged(/connect ECONNREFUSED/)
    await service.stop()
    assert.match(service.output, /WARN .*JWT_JWKS_URL: the keys cannot be fetched: connect ECONNREFUSED/)
    assert.notInclude(service.output, "    at ")
  })
})
