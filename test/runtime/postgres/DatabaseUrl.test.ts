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
    ["postgres://db?sslmode=no-verify", "sslmode=no-verify"],
    ["postgres://db?sslmode=verify-ca", "sslrootcert"],
    ["postgres://db?sslmode=verify-full&sslrootcert=/nowhere", "sslrootcert"],
    ["postgres://db?sslmode=require&sslrootcert=system", "verify-full"],
    ["postgres://db?sslcert=a", "sslcert"],
    ["postgres://db?channel_binding=require", "channel_binding"],
    ["postgres://db?target_session_attrs=standby", "target_session_attrs"],
    ["postgres://db?connect_timeout=soon", "connect_timeout"],
    ["postgres://db?apikey=secret", "apikey"]
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

  it("accepts parameters that change nothing", () => {
    assert.isUndefined(
      refusal("postgres://db?keepalives_idle=3&gssencmode=prefer&channel_binding=prefer&client_encoding=UTF8")
    )
  })
})
