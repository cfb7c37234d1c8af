import { Redacted } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { isTlsOptional, optionsFor, parse, tlsProblemOf } from "../../../src/runtime/postgres/DatabaseUrl.ts"
import { removeDirectory, temporaryDirectory } from "../../kit/directories.ts"

const parsed = (text: string) => parse(Redacted.make(text))
const hostsOf = (text: string) => parsed(text).hosts.map(({ host, port }) => `${host} ${port}`)
const refusal = (text: string) => {
  try {
    parsed(text)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

describe("a database URL", () => {
  it.each([
    ["postgres://db", ["db 5432"]],
    ["postgresql://db:6000/tasks", ["db 6000"]],
    ["postgres:///tasks", ["localhost 5432"]],
    ["postgres://[::1]:6000/tasks", ["::1 6000"]],
    ["postgres:///tasks?host=/run/postgresql", ["/run/postgresql 5432"]],
    ["postgres://%2Frun%2Fpostgresql:6000/tasks", ["/run/postgresql 6000"]],
    ["postgres://user@/tasks?host=/run/postgresql&port=6000", ["/run/postgresql 6000"]],
    ["postgres://a,b:6000,[::1]/tasks?target_session_attrs=read-write", ["a 5432", "b 6000", "::1 5432"]],
    ["postgres:///tasks?host=a,b&port=6000", ["a 6000", "b 6000"]],
    ["postgres:///tasks?host=a,b&port=6000,6001", ["a 6000", "b 6001"]]
  ])("%s names its hosts", (text, hosts) => {
    assert.deepStrictEqual(hostsOf(text), hosts)
  })

  it("has credentials, a database and parameters, percent-encoded or not", () => {
    const { options } = parsed(
      "postgres://us%40er:p%3Ass:w@rd@db/ta%20sks?application_name=x&options=-c%20a%3Db&connect_timeout=3"
    )
    assert.strictEqual(options.username, "us@er")
    assert.isTrue(Redacted.isRedacted(options.password) && Redacted.value(options.password) === "p:ss:w@rd")
    assert.deepInclude(options, { database: "ta sks", applicationName: "x", startupOptions: "-c a=b" })
    assert.strictEqual(parsed("postgres://a:b@db/c?user=d&dbname=e").options.username, "d")
    assert.strictEqual(parsed("postgres://a:b@db/c?user=d&dbname=e").options.database, "e")
  })

  it("follows sslmode and sslrootcert as libpq does", () => {
    const directory = temporaryDirectory()
    const root = path.join(directory, "root.pem")
    fs.writeFileSync(root, "a certificate")
    try {
      const tls = (query: string) => {
        const url = parsed(`postgres://db/tasks?${query}`)
        const { tls } = url
        if (tls === undefined) return "plain"
        const verifies = tls.rejectUnauthorized !== false
        const name = tls.checkServerIdentity?.("", { subject: { CN: "other" } } as never) === undefined
          ? "any name"
          : "name"
        return [isTlsOptional(url) ? "optional" : "required", verifies ? name : "unverified", tls.ca?.toString()].join()
      }
      assert.strictEqual(tls("sslmode=disable"), "plain")
      assert.strictEqual(tls(""), "optional,unverified,")
      assert.strictEqual(tls("sslmode=prefer"), "optional,unverified,")
      assert.strictEqual(tls("sslmode=require"), "required,unverified,")
      assert.strictEqual(tls(`sslmode=require&sslrootcert=${root}`), "required,any name,a certificate")
      assert.strictEqual(tls(`sslmode=verify-ca&sslrootcert=${root}`), "required,any name,a certificate")
      assert.strictEqual(tls(`sslmode=verify-full&sslrootcert=${root}`), "required,name,a certificate")
      assert.strictEqual(tls("sslmode=verify-full"), "required,name,")
      assert.isUndefined(parsed("postgres:///tasks?host=/run&sslmode=require").tls)
    } finally {
      removeDirectory(directory)
    }
  })

  it.each([
    ["mysql://db", "must be a URL"],
    ["db/tasks", "must be a URL"],
    ["postgres://db:0/tasks", "port must be"],
    ["postgres://::1/tasks", "brackets"],
    ["postgres:///tasks?host=/run,db", "mix"],
    ["postgres:///tasks?host=a,b,c&port=1,2", "port must have"],
    ["postgres://us%er@db", "%25"],
    ["postgres://us:sec/ret@db/tasks", "%2F"],
    ["postgres://us:5/secret@db/tasks", "%2F"],
    ["postgres://us:a#secret@db/tasks", "%23"],
    ["postgres://us:a?secret@db/tasks", "%3F"],
    ["postgres://us:5?secret@db/tasks", "%3F"],
    ["postgres://us:5?x=secret@db/tasks", "%3F"],
    ["postgres://db?sslmode=sometimes", "sslmode=sometimes"],
    ["postgres://db?sslmode=verify-ca", "sslrootcert"],
    ["postgres://db?sslmode=verify-full&sslrootcert=/nowhere", "sslrootcert"],
    ["postgres://db?sslmode=require&sslrootcert=system", "verify-full"],
    ["postgres://db?sslcert=a", "sslkey"],
    ["postgres://db?sslcert=/nowhere&sslkey=/nowhere", "sslcert"],
    ["postgres://db?ssl_min_protocol_version=TLSv9", "version of TLS"],
    ["postgres://db?sslmode=disable&channel_binding=require", "channel_binding"],
    ["postgres://db?gssencmode=require", "gssencmode"],
    ["postgres://db?sslmodel=verify-full", "sslmodel"],
    ["postgres://db?sslidentity=secret", "sslidentity"],
    ["postgres://db?require_auth=scram-sha-256", "require_auth"],
    ["postgres://db?service=tasks", "service"],
    ["postgres://db?passfile=/secret", "passfile"],
    ["postgres://db?targetServerType=secondary", "targetServerType"],
    ["host=db user", "must be a URL"],
    ["postgres://db?target_session_attrs=standby", "target_session_attrs"],
    ["postgres://db?connect_timeout=soon", "connect_timeout"]
  ])("%s is refused with the name of what is wrong", (text, name) => {
    assert.include(refusal(text), name)
    assert.notInclude(refusal(text), "secret")
  })

  it.each([
    ["postgres://db", false, undefined],
    ["postgres://db", true, "the certificate of the server is not verified"],
    ["postgres://db?sslmode=prefer", false, "the certificate of the server is not verified"],
    ["postgres://localhost,db?sslmode=require", false, "the certificate of the server is not verified"],
    ["postgres://db?ssl=true", false, "the certificate of the server is not verified"],
    ["postgres://db?sslmode=disable", true, undefined],
    ["postgres://db?sslmode=verify-full", true, undefined],
    ["postgres://127.0.0.1", true, undefined],
    ["postgres:///tasks?host=/run", true, undefined]
  ])("%s with TLS, in production %s", (text, isProduction, problem) => {
    const url = parsed(text)
    const found = tlsProblemOf(url, optionsFor(url, url.hosts[0], true), isProduction)
    assert.strictEqual(found?.split(":")[0], problem)
  })

  it("names a connection that fell back to none", () => {
    const url = parsed("postgres://db")
    assert.match(
      tlsProblemOf(url, optionsFor(url, url.hosts[0], false), true) ?? "",
      /^the connection is not encrypted: set sslmode=verify-full and sslrootcert$/
    )
  })

  it.each([
    // Neon, through its pooler, and as its console copies it
    ["postgresql://u:p@ep-a-pooler.eu.aws.neon.tech/db?sslmode=require&channel_binding=require", "verify-full", []],
    ["psql 'postgresql://u:p@ep-a.eu.aws.neon.tech/db?options=endpoint%3Dep-a&sslnegotiation=direct'", undefined, [
      "sslnegotiation"
    ]],
    ["postgres://u:p@localhost/db?sslmode=require&channel_binding=require", "require", ["channel_binding"]],
    ["postgres://u:p@db/db?sslmode=verify-full&channel_binding=require", "verify-full", ["channel_binding"]],
    // Supabase, Vercel, Prisma
    [
      "postgresql://postgres.ref:p@aws-0-eu.pooler.supabase.com:6543/postgres?pgbouncer=true&connection_limit=1",
      undefined,
      [
        "pgbouncer",
        "connection_limit"
      ]
    ],
    ["postgres://u:p@db/db?sslmode=require&supa=base-pooler.x", "require", ["supa"]],
    ["postgresql://u:p@db/db?schema=public&connection_limit=5&pgbouncer=true&pool_timeout=", undefined, [
      "schema",
      "connection_limit",
      "pgbouncer"
    ]],
    ["postgresql://u:p@db/db?sslmode=require&sslaccept=strict&socket_timeout=3", "verify-full", ["socket_timeout"]],
    ["postgresql://u:p@db/db?sslmode=require&sslaccept=accept_invalid_certs", "require", []],
    // Heroku, Azure, Aiven, Cloud SQL, JDBC
    ["postgres://u:p@ec2-1.compute.amazonaws.com:5432/d?sslmode=no-verify", "require", []],
    ["postgres://u:p@db/d?ssl=no-verify", "require", []],
    ["postgres://me@server:p@server.postgres.database.azure.com:5432/postgres?sslmode=require", "require", []],
    ["\"postgres://avnadmin:p@pg-1.aivencloud.com:1234/defaultdb?sslmode=require\"", "require", []],
    ["postgresql://u:p@localhost/db?host=/cloudsql/project:region:instance", undefined, []],
    ["jdbc:postgresql://db:5432/tasks?user=u&password=p&ssl=true&tcpKeepAlive=true&prepareThreshold=0", "require", [
      "tcpKeepAlive",
      "prepareThreshold"
    ]],
    ["host=db port=5432 dbname=tasks user=u password='p' sslmode=require", "require", []],
    ["cockroachdb://u:p@db:26257/defaultdb?sslmode=verify-full&sslrootcert=system", "verify-full", []],
    ["postgres://u:p@db/d?sslrootcert=system", "verify-full", []],
    // Other drivers and poolers
    ["postgresql+asyncpg://u:p@db/d?statement_cache_size=0&prepared_statement_cache_size=0", undefined, [
      "statement_cache_size",
      "prepared_statement_cache_size"
    ]],
    [
      "postgres://db?binary_parameters=yes&statement_cache_mode=describe&pool_max_conns=5&uselibpqcompat=true",
      undefined,
      [
        "binary_parameters",
        "statement_cache_mode",
        "pool_max_conns"
      ]
    ],
    ["postgres://db?keepalives=1&keepalives_idle=3&tcp_user_timeout=5&load_balance_hosts=random", undefined, [
      "keepalives",
      "keepalives_idle",
      "tcp_user_timeout",
      "load_balance_hosts"
    ]],
    ["postgres://db?gssencmode=prefer&channel_binding=prefer&client_encoding=UTF8&sslsni=1", undefined, []],
    ["postgres://db?client_encoding=LATIN1&hostaddr=10.0.0.1&apikey=secret", undefined, ["client_encoding", "apikey"]]
  ])("%s starts, with what it cannot follow named", (text, mode, ignored) => {
    const found = parsed(text)
    assert.strictEqual(found.sslmode, mode)
    assert.deepStrictEqual(found.ignored, ignored)
  })

  it("has the credentials, the database and the names of every spelling", () => {
    for (
      const text of [
        "jdbc:postgresql://db:6000/tasks?user=u&password=a%2Bb+c&ApplicationName=x",
        "host=db port=6000 dbname=tasks user=u password='a+b+c' application_name=x",
        "host = db port = 6000 dbname=tasks user=u password=a\\+b+c application_name='x'",
        "'postgres://u:a+b+c@db:6000/tasks?fallback_application_name=x'"
      ]
    ) {
      const { hosts, options } = parsed(text)
      assert.deepStrictEqual(hosts, [{ host: "db", port: 6000 }])
      assert.deepInclude(options, { username: "u", database: "tasks", applicationName: "x" })
      assert.isTrue(Redacted.isRedacted(options.password) && Redacted.value(options.password) === "a+b+c")
    }
    const { hosts, options } = parsed("postgresql://u:p@localhost/db?host=/cloudsql/project:region:instance")
    assert.deepStrictEqual(hosts, [{ host: "/cloudsql/project:region:instance", port: 5432 }])
    assert.strictEqual(options.username, "u")
  })

  it.each([
    ["options=endpoint%3Dep-a", "endpoint=ep-a"],
    ["options=-c+a%3Db", "-c a=b"],
    ["schema=public", undefined],
    ["schema=My%20App", "-c search_path=\"My\\ App\""],
    ["currentSchema=app,public", "-c search_path=app,public"],
    ["options=-c%20a%3Db&search_path=app", "-c a=b -c search_path=app"]
  ])("%s is an option of the session", (query, options) => {
    assert.strictEqual(parsed(`postgres://db?${query}`).options.startupOptions, options)
  })
})
