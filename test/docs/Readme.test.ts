import * as fs from "node:fs"
import { assert, describe, it } from "vitest"
import * as DemoAssistants from "../../src/runtime/builtin/DemoAssistants.ts"
import { cellsOf, partOf, tables } from "./tables.ts"

const root = new URL("../../", import.meta.url)
const readme = fs.readFileSync(new URL("README.md", root), "utf8")

describe("README", () => {
  for (const [name, table] of Object.entries(tables)) {
    it(`prints the ${name} that the code has (npm run docs)`, () => {
      assert.deepStrictEqual(cellsOf(partOf(name).exec(readme)?.[2] ?? ""), cellsOf(table))
    })
  }

  it("names every demo assistant", () => {
    for (const id of Object.values(DemoAssistants.ids)) assert.match(readme, new RegExp(`^\\| ${id} `, "m"))
  })

  it("gives a line to every dependency, and no line to what is none", () => {
    const { dependencies, devDependencies, optionalDependencies } = JSON.parse(
      fs.readFileSync(new URL("package.json", root), "utf8")
    )
    const section = readme.split("## Dependencies")[1]?.split("\n## ")[0] ?? ""
    for (const name of Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies })) {
      assert.include(section, `\`${name}\``)
    }
  })

  it("shows every folder of src that there is", () => {
    const folders = fs.readdirSync(new URL("src", root), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isDirectory()).map((entry) => entry.name)
    for (const folder of folders) assert.include(readme, `${folder}/`)
  })
})
