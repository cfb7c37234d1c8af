/** The data of users: no table is forgotten by their export and their erasure. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import { extensions } from "../../src/runtime/loadedExtensions.ts"
import * as Database from "../kit/Database.ts"

const schema = new URL("../../src/services/store/schema/", import.meta.url)

/** `Users.test.ts` and `UserRecords.ts` are about them. */
const ofCore = new Set(
  fs.readdirSync(schema).flatMap((file) =>
    Array.from(fs.readFileSync(new URL(file, schema), "utf8").matchAll(/CREATE TABLE (\w+)/g), ([, name = ""]) => name)
  )
)

layer(Database.layer)("a table of an extension", (it) => {
  it.effect("with a user or a task in a column is exported, or says why not", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const found = yield* sql<{ readonly name: string }>`
        SELECT relname AS name FROM pg_class AS c WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace AND (
          EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND NOT attisdropped
            AND attname ~ '^(sub|user(_id|_sub|name)?|owner_(id|sub)|task_(uu)?id)$')
          OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND confrelid = 'tasks'::regclass)
        ) ORDER BY 1`
      assert.includeMembers(found.map(({ name }) => name), ["tasks", "user_limits", "task_turns"])
      const names = found.map(({ name }) => name).filter((name) => !ofCore.has(name))
      const data = extensions.flatMap(({ userData = [] }) => userData)
      const excused = data.flatMap(({ others = {} }) => Object.keys(others))
      const listed = new Set([...excused, ...data.flatMap(({ tables }) => tables.map(({ table }) => table))])
      assert.deepStrictEqual(
        names.filter((name) => !listed.has(name)),
        [],
        "list them in `tables` or `others` of the extension's `userData`"
      )
      assert.deepStrictEqual(excused.filter((name) => !names.includes(name)), [], "`others` has no use for them")
    }))
})
