import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { root, steps } from "./walk.ts"

const importsOf = (file: string) =>
  [...fs.readFileSync(path.join(root, file), "utf8").matchAll(/from "(\.[^"]+)"/g)]
    .map(([, address = ""]) => path.join(path.dirname(file), address))

describe("the walk of one task", () => {
  it("goes from each file to one that it imports, or that imports it", () => {
    const seen = new Set<string>()
    const reachedFrom = new Set<string>()
    for (const step of steps()) {
      assert.isNotEmpty(step, "a step whose files are not listed")
      for (const [index, file] of step.entries()) {
        const imported = importsOf(file)
        // A step begins at another edge of the service.
        assert.isTrue(
          index === 0 || reachedFrom.has(file) || imported.some((other) => seen.has(other)),
          `${file} has nothing to do with the files before it`
        )
        assert.isFalse(seen.has(file), `${file} is there twice`)
        seen.add(file)
        for (const other of imported) reachedFrom.add(other)
      }
    }
    assert.isAbove(seen.size, 60)
  })
})
