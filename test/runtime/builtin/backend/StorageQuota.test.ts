import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as StorageQuota from "../../../../src/runtime/builtin/backend/StorageQuota.ts"
import { useDirectory } from "../../../kit/suite.ts"

const root = useDirectory()

const directory = path.join(root, "usage")
const mebibyte = 1024 * 1024

describe("StorageQuota", () => {
  it.live("rejects files when the disk has too little free space", () =>
    Effect.gen(function*() {
      const quota = StorageQuota.make({ directory, userBytes: mebibyte, freeBytes: Number.MAX_SAFE_INTEGER })
      const { message } = yield* Effect.flip(Effect.scoped(quota.open("someone")))
      assert.strictEqual(message, "The storage has no room for more files at the moment")
    }))

  it.live("counts complete files and releases incomplete ones", () =>
    Effect.gen(function*() {
      const quota = StorageQuota.make({ directory, userBytes: mebibyte, freeBytes: 0 })
      const add = (bytes: number, isWhole: boolean) =>
        Effect.scoped(Effect.flatMap(
          quota.open("someone"),
          ({ keep, pass }) => Effect.andThen(pass(bytes), isWhole ? keep : Effect.void)
        ))
      yield* Effect.repeat(add(mebibyte / 2, false), { times: 10 })
      yield* add(mebibyte / 2, true)
      assert.strictEqual((yield* Effect.flip(add(mebibyte / 2, true)))._tag, "StorageFull")
      assert.strictEqual(fs.statSync(directory).mode & 0o777, 0o700)
      assert.deepStrictEqual(
        fs.readdirSync(directory).map((name) => fs.statSync(path.join(directory, name)).mode & 0o777),
        [
          0o600
        ]
      )
    }))
})
