/** The pages of the two clients have the same sections, and their examples the same calls: a reader of one finds all of the other. */
import { readFileSync } from "node:fs"
import { assert, describe, it } from "vitest"

const camel = (name: string) => name.replaceAll(/_(\w)/g, (_, letter) => letter.toUpperCase())

/** The calls of the examples, by section. */
const callsOf = (page: string) =>
  new Map(
    readFileSync(new URL(`../../src/http/client/${page}/README.md`, import.meta.url), "utf8").split(/^## /m).slice(1)
      .map((section) => {
        const [title = ""] = section.split("\n")
        const code = Array.from(section.matchAll(/^```\w+\n(.*?)^```/gms), ([, text = ""]) => text).join("\n")
        const calls = Array.from(code.matchAll(/\bclient\.(\w+\.\w+)\(/g), ([, call = ""]) => camel(call))
        return [title, [...new Set(calls)].toSorted()] as const
      })
  )

describe("the pages of the clients", () => {
  const promise = callsOf("promise")
  const python = callsOf("python")

  it("have the same sections", () => {
    // Only Python's client blocks.
    assert.deepStrictEqual([...python.keys()].filter((title) => title !== "asyncio"), [...promise.keys()])
  })

  it("have examples with the same calls", () => {
    for (const [title, calls] of promise) assert.deepStrictEqual(python.get(title), calls, title)
  })
})
