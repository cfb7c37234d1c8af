import * as fs from "node:fs"
import { assert, describe, it } from "vitest"

interface Entry {
  readonly resolved?: string
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const lock = JSON.parse(fs.readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8")) as {
  readonly packages: Readonly<Record<string, Entry>>
}

describe("package-lock.json", () => {
  it("names no registry's host", () => {
    for (const [name, { resolved }] of Object.entries(lock.packages)) assert.isUndefined(resolved, name)
  })

  it("holds what other platforms install, without which npm ci refuses it", () => {
    for (const { optionalDependencies = {} } of Object.values(lock.packages)) {
      for (const name of Object.keys(optionalDependencies)) assert.property(lock.packages, `node_modules/${name}`)
    }
  })
})
