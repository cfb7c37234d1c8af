/** What `npm run nightly` runs, and the page that it prints. */
import * as fs from "node:fs"
import { assert, describe, it } from "vitest"
import { pageOf } from "./page.ts"
import { stagesOf } from "./stages.ts"

const read = (file: string) => fs.readFileSync(new URL(`../../${file}`, import.meta.url), "utf8")

const { scripts }: { readonly scripts: Readonly<Record<string, string>> } = JSON.parse(read("package.json"))

const stages = stagesOf(20_261_127)

/** The commands that the stages run, of npm's scripts too. */
const commands = stages.map(({ command: [program, ...args] }) =>
  program === "npm" ? scripts[args[0] === "run" ? args[1]! : args[0]!] : [program, ...args].join(" ")
)

describe("a night", () => {
  it("runs scripts that exist, and every project of tests", () => {
    assert.isTrue(commands.every((command) => command !== undefined))
    const projects = Array.from(
      read("vitest.config.ts").matchAll(/(?:name: |processes\()"(\w+)"/g),
      ([, name]) => name
    )
    assert.includeMembers(projects, ["unit", "integration", "slow", "browser", "published", "long"])
    for (const name of projects) {
      assert.isTrue(commands.some((command) => command?.includes(`--project ${name}`)), name)
    }
  })

  it("gives its seed to what is random", () => {
    const ofSeed = stages.filter(({ command, env = {} }) =>
      [...command, ...Object.values(env)].join(" ").includes("20261127")
    )
    assert.sameMembers(ofSeed.map(({ name }) => name), ["fuzz", "chaos"])
    const simulation = stages.find(({ name }) => name === "simulate")
    assert.include(simulation?.command ?? [], String(20_261_127 * 3000))
  })

  it("has one page, the seed first, with the command and the last lines of what failed", () => {
    const page = pageOf(7, [
      { name: "one", outcome: "passed", seconds: 5, detail: " Tests  3 passed | 1 skipped" },
      { name: "two", outcome: "skipped", seconds: 0, detail: "no docker" },
      {
        name: "three",
        outcome: "failed",
        seconds: 100,
        detail: "exit 1",
        again: "X=1 npm run three",
        log: "l",
        tail: "a\n\u001b[31mb"
      }
    ])
    assert.match(page, /^# Seed 7\n\n1 stages passed, 1 failed, 1 skipped, in 1\.8 min\./)
    assert.include(page, "| one | passed | 5 s | Tests 3 passed \\| 1 skipped |\n| two | skipped |  | no docker |\n")
    assert.include(page, "## three\n\nAgain: `X=1 npm run three`. The whole log: `l`.\n\n```\na\nb\n```\n")
  })
})
