import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import * as fs from "node:fs"
import { pathToFileURL } from "node:url"
import { built, cached, current } from "../../../../src/runtime/extensions/console/ConsoleAssets.ts"
import * as ConsoleBundle from "../../../../src/runtime/extensions/console/ConsoleBundle.ts"
import { useDirectory } from "../../../kit/suite.ts"

const sources = new URL("../../../../src/http/console/", import.meta.url)
const directory = pathToFileURL(`${useDirectory()}/`)

describe("the console's files", () => {
  it.effect("are within the budget: 35.5 KB of script for the first view, 114 KB in all, and 9.5 KB of styles, compressed", () =>
    Effect.map(ConsoleBundle.bundle(sources), (files) => {
      const page = new TextDecoder().decode(files.get("index.html")?.bytes)
      const sizesOf = (kind: string, isCounted: (name: string) => boolean) =>
        [...files].filter(([name]) => name.endsWith(kind) && isCounted(name)).map(([, { gzip }]) => gzip.length)
      const sum = (sizes: ReadonlyArray<number>) => sizes.reduce((a, b) => a + b, 0)
      const first = sizesOf(".js", (name) => page.includes(`/console/${name}"`))
      assert.isAtLeast(first.length, 1)
      assert.isBelow(sum(first), 35_500)
      assert.isBelow(sum(sizesOf(".js", () => true)), 114_000)
      assert.isBelow(sum(sizesOf(".css", () => true)), 9500)
    }))

  it.effect("are read from a package as the build wrote them", () =>
    Effect.gen(function*() {
      yield* ConsoleBundle.write(sources, directory)
      const find = yield* built(directory)
      const page = Option.getOrThrow(yield* find("index.html"))
      const [, script = ""] = /\/console\/(app-[\w-]+\.js)/.exec(new TextDecoder().decode(page.bytes)) ?? []
      assert.isTrue(Option.isSome(yield* find(script)))
      for (const name of ["manifest.json", "index.html.gz", "../package.json", "__proto__", ""]) {
        assert.isTrue(Option.isNone(yield* find(name)), name)
      }
    }))

  it.effect("are reported as missing when nothing was built", () =>
    Effect.gen(function*() {
      const find = yield* built(new URL("nowhere/", directory))
      assert.strictEqual((yield* Effect.flip(find("index.html")))._tag, "ConsoleNotBuilt")
    }))

  it.effect("are bundled in a checkout", () =>
    Effect.gen(function*() {
      const find = yield* current
      assert.isTrue(Option.isSome(yield* find("index.html")))
    }))

  it.effect("are built once for concurrent requests, and again after a change", () =>
    Effect.gen(function*() {
      let [builds, version] = [0, 1]
      const build = Effect.as(Effect.andThen(Effect.yieldNow, Effect.sync(() => builds++)), new Map())
      const files = yield* cached(build, () => version)
      yield* Effect.all(Array.from({ length: 20 }, () => files), { concurrency: "unbounded" })
      assert.strictEqual(builds, 1)
      version = 2
      yield* files
      yield* files
      assert.strictEqual(builds, 2)
    }))

  it("contain no way from text to HTML", () => {
    for (const name of fs.readdirSync(sources, { recursive: true, encoding: "utf8" })) {
      const file = new URL(name, sources)
      if (!/\.tsx?$/.test(name)) continue
      assert.notMatch(fs.readFileSync(file, "utf8"), /dangerouslySetInnerHTML|\.innerHTML|srcdoc|DOMParser/, name)
    }
  })
})
