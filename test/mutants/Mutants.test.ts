import { readFileSync } from "node:fs"
import { assert, describe, it } from "vitest"
import { mutants } from "./mutants.ts"

describe("mutants", () => {
  it("each name a text that occurs once in its file, so that a change of the file does not lose them", () => {
    const root = new URL("../../", import.meta.url)
    const lost = mutants.filter(({ file, from }) => readFileSync(new URL(file, root), "utf8").split(from).length !== 2)
    assert.deepStrictEqual(lost.map(({ name }) => name), [])
  })
})
