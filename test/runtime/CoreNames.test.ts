/** The core works without its extensions: no statement, column or type of it has a name that belongs to one. */
import { Predicate } from "effect"
import { globSync, readdirSync, readFileSync } from "node:fs"
import { assert, describe, it } from "vitest"
import { routesOf } from "../../src/http/ExtensionRoutes.ts"
import { extensions } from "../../src/runtime/loadedExtensions.ts"

const src = new URL("../../src/", import.meta.url)
const folders = new Set([...readdirSync(new URL("runtime/extensions", src)), "extensions"])

/** Other parts that come with the service: they use extensions, or are clients of theirs. */
const others = ["http/client", "runtime/builtin", "runtime/cli", "runtime/conformance", "runtime/testing"]

const core = globSync("**/*.ts", { cwd: src }).filter((path) =>
  path !== "runtime/extensions.ts" && !path.split("/").some((folder) => folders.has(folder)) &&
  !others.some((other) => path.startsWith(`${other}/`))
).toSorted()

const statements = extensions.flatMap(({ tables }) =>
  tables === undefined ? [] : [...tables.migrations.flat(), ...tables.functions ?? []]
)
const created = (kind: string) => {
  const pattern = new RegExp(`CREATE (?:OR REPLACE |UNIQUE )*${kind} (?:IF NOT EXISTS )?(\\w+)`, "g")
  return new Set(statements.flatMap((text) => Array.from(text.matchAll(pattern), ([, name = ""]) => name)))
}

/** In a statement, because some tables have an everyday name. */
const inStatement = (name: string) =>
  new RegExp(`\\b(FROM|JOIN|INTO|UPDATE|TABLE|ONLY|ON|EXISTS)\\s+(IF (NOT )?EXISTS )?${name}\\b`)
const asWord = (name: string) => new RegExp(`\\b${name.replace(/\W/g, "\\$&")}\\b`)
/** With any ids in it. */
const asPath = (path: string) => {
  const parts = path.replace(/\/\*$/, "").split(/:\w+/).map((part) => part.replace(/\W/g, "\\$&"))
  return new RegExp(`${parts.join("[^/\\s]+")}(?![\\w-])`)
}

const settings = extensions.flatMap(({ settings }) =>
  Object.values(settings).flatMap((setting) => Predicate.hasProperty(setting, "name") ? [String(setting.name)] : [])
)
const calls = extensions.flatMap(({ routes: { rpc } }) => rpc === undefined ? [] : [...rpc.requests.keys()])

/** Names that the tables and operations do not show, of what once was in the core. */
const more: ReadonlyArray<string> = []

const names: ReadonlyMap<string, RegExp> = new Map([
  ...[...created("TABLE")].map((name) => [name, inStatement(name)] as const),
  ...[...created("INDEX"), ...created("FUNCTION"), ...settings, ...calls, ...more].map((name) =>
    [name, asWord(name)] as const
  ),
  ...extensions.flatMap(({ routes }) => routesOf(routes)).map(({ path }) => [path, asPath(path)] as const)
])

/** By file: what it may name, with the reason. */
const allowed: Readonly<Record<string, { readonly names: ReadonlyArray<string>; readonly reason: string }>> = {
  "http/contract/OpenApiTransform.ts": {
    names: ["OPERATOR_READ_TOKENS"],
    reason: "the document says who may read the metrics"
  },
  "http/handlers/Authorization.ts": { names: ["OPERATOR_READ_TOKENS"], reason: "a refusal says which token to send" }
}

describe("the core", () => {
  it("has files and extensions to look at", () => {
    assert.isAbove(core.length, 200)
    for (const name of ["stored_bytes", "schedules", "tasks_by_creation", "STORED_BYTES", "Schedules.create"]) {
      assert.isTrue(names.has(name), name)
    }
    assert.isTrue(names.get("history")?.test("DELETE FROM\n history WHERE minute < $1"))
  })

  it("names no table, index, function, setting, call or path of an extension", () => {
    const found = core.flatMap((path) => {
      const text = readFileSync(new URL(path, src), "utf8")
      const known = [...names].filter(([name, pattern]) => !allowed[path]?.names.includes(name) && pattern.test(text))
      return known.map(([name]) => `${path}: ${name}`)
    })
    assert.deepStrictEqual(found, [])
  })

  it("has no exception that is not needed", () => {
    for (const [path, { names: permitted, reason }] of Object.entries(allowed)) {
      const text = readFileSync(new URL(path, src), "utf8")
      for (const name of permitted) {
        assert.isTrue(names.get(name)?.test(text), `${path} no longer has ${name}: ${reason}`)
      }
    }
  })
})
