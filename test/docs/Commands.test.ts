/** The commands of CONTRIBUTING run what they say. */
import * as fs from "node:fs"
import { assert, it } from "vitest"

const root = new URL("../../", import.meta.url)
const read = (file: string) => fs.readFileSync(new URL(file, root), "utf8")
const { scripts }: { readonly scripts: Readonly<Record<string, string>> } = JSON.parse(read("package.json"))

interface Project {
  readonly test: {
    readonly name: string
    readonly include: ReadonlyArray<string>
    readonly exclude?: ReadonlyArray<string>
  }
}

// It is no part of the program that is type-checked.
const config = await import(new URL("vitest.config.ts", root).href)
/** The files of each project. */
const projects: ReadonlyMap<string, ReadonlyArray<string>> = new Map(
  config.default.test.projects.map(({ test: { exclude = [], include, name } }: Project) =>
    [name, fs.globSync(include, { cwd: root, exclude })] as const
  )
)

const together = ["unit", "integration", "slow", "published"]

/** The files that a script of `package.json` runs; undefined for a script that is no run of tests. */
const filesOf = (script: string) => {
  const command = scripts[script] ?? ""
  if (!command.includes("vitest run --project")) return
  const names = command.startsWith("TESTS=all")
    ? together
    : Array.from(command.matchAll(/--project (\w+)/g), ([, name = ""]) => name)
  return names.flatMap((name) => projects.get(name) ?? [])
}

const commands = Array.from(
  read(".github/CONTRIBUTING.md").matchAll(/`npm (test|run [\w:]+)(?: -- ([^`]+))?`/g),
  ([command, script = "", args = ""]) => [command, script.replace("run ", ""), args.split(" ")] as const
)

it.each(commands)("%s", (_, script, args) => {
  assert.property(scripts, script)
  const files = filesOf(script)
  // Words in capitals are for the reader to replace.
  for (const name of files === undefined ? [] : args.filter((arg) => !/^[A-Z]*$/.test(arg))) {
    const matching = files?.filter((file) => file.toLowerCase().includes(name.toLowerCase())) ?? []
    assert.isNotEmpty(matching, `no file of npm run ${script} has ${name} in its name`)
  }
})
