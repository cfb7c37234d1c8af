import * as fs from "node:fs"
import { assert, describe, it } from "vitest"
import * as DemoAssistants from "../../src/runtime/builtin/demo/DemoAssistants.ts"

const root = new URL("../../", import.meta.url)
const read = (address: string) => fs.readFileSync(new URL(address, root), "utf8")

describe("pages", () => {
  it("README.md has at most 200 lines", () => {
    assert.isAtMost(read("README.md").trimEnd().split("\n").length, 200)
  })

  it("the page of the built-in systems lists every demo assistant", () => {
    const page = read("src/runtime/builtin/README.md")
    for (const id of Object.values(DemoAssistants.ids)) assert.match(page, new RegExp(`^- ${id} `, "m"))
  })

  it("the page of the runtime gives a reason for every dependency", () => {
    const { dependencies, devDependencies, optionalDependencies } = JSON.parse(read("package.json"))
    const section = read("src/runtime/README.md").split("## Dependencies")[1]?.split("\n## ")[0] ?? ""
    for (const name of Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies })) {
      assert.include(section, `\`${name}\``)
    }
  })

  for (const top of ["domain", "services", "http", "runtime"]) {
    it(`the page of src/${top} names every folder in it`, () => {
      const page = read(`src/${top}/README.md`)
      const folders = fs.readdirSync(new URL(`src/${top}`, root), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isDirectory()).map(({ name }) => `${name}/`).filter((name) => name !== "__pycache__/")
      assert.deepStrictEqual(folders.filter((folder) => !page.includes(folder)), [])
    })
  }
})
