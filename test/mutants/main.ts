/**
 * Plants bugs of one line, one at a time, in a copy of the tree, and runs the suite that must find each: `npm run mutants`. A bug that
 * no test finds survives and fails the run. `-- TEXT` plants those whose name or file contains it.
 */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { type Mutant, mutants } from "./mutants.ts"

/** Suites that start no service, for which none is bundled. */
const inProcess = new Set(
  ["TaskStoreSql", "CommitBatches", "usage/UsageSql"].map((name) => `test/integration/${name}.test.ts`)
)

const root = path.resolve(import.meta.dirname, "../..")

interface Result {
  /** Titles of the tests that failed. */
  readonly failed: ReadonlyArray<string>
  readonly passed: number
  readonly output: string
}

/** All files that git knows or would add. Packages are those of the tree. */
const copyTree = (directory: string) => {
  const listed = spawnSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root })
  for (const file of listed.stdout.toString().split("\0").filter((name) => name !== "")) {
    const from = path.join(root, file)
    if (!fs.existsSync(from)) continue
    fs.mkdirSync(path.dirname(path.join(directory, file)), { recursive: true })
    fs.copyFileSync(from, path.join(directory, file))
  }
  fs.symlinkSync(path.join(root, "node_modules"), path.join(directory, "node_modules"))
}

/** Runs the suites that must find these mutants. */
const run = (directory: string, chosen: ReadonlyArray<Mutant>): Result => {
  const report = path.join(directory, "mutants.json")
  fs.rmSync(report, { force: true })
  const projects = new Set(chosen.map(({ by }) => by[0]))
  const files = new Set(chosen.map(({ by }) => by[1]))
  // One without a title wants all tests: an empty alternative.
  const titles = new Set(chosen.map(({ by }) => by[2] ?? ""))
  const { stderr, stdout } = spawnSync(
    process.execPath,
    [
      "node_modules/vitest/vitest.mjs",
      "run",
      ...Array.from(projects, (project) => `--project=${project}`),
      "--reporter=json",
      `--outputFile=${report}`,
      "-t",
      Array.from(titles).join("|"),
      ...files
    ],
    {
      cwd: directory,
      env: {
        ...process.env,
        ...(Array.from(files).every((file) => inProcess.has(file)) ? { TEST_SERVICE: "none" } : {})
      },
      encoding: "utf8",
      maxBuffer: 1e9
    }
  )
  const output = `${stdout}${stderr}`
  if (!fs.existsSync(report)) return { failed: [], passed: 0, output }
  const { numPassedTests, testResults } = JSON.parse(fs.readFileSync(report, "utf8")) as {
    readonly numPassedTests: number
    readonly testResults: ReadonlyArray<{
      readonly assertionResults: ReadonlyArray<{ readonly status: string; readonly fullName: string }>
    }>
  }
  const failed = testResults.flatMap(({ assertionResults }) =>
    assertionResults.flatMap(({ fullName, status }) => status === "failed" ? [fullName] : [])
  )
  return { failed, passed: numPassedTests, output }
}

const tail = (output: string) => output.trimEnd().split("\n").slice(-30).map((line) => `    ${line}`).join("\n")

/**
 * Plants the mutant, runs its suite and restores the file. Returns what is wrong with the mutant or its suite, if anything. A test that
 * fails anyway, one of `failing`, finds nothing.
 */
const plant = (directory: string, mutant: Mutant, failing: ReadonlySet<string>): string | undefined => {
  const file = path.join(directory, mutant.file)
  const text = fs.readFileSync(file, "utf8")
  const places = text.split(mutant.from).length - 1
  if (places !== 1) return `its text occurs ${places} times in ${mutant.file}: update the mutant`
  fs.writeFileSync(file, text.replace(mutant.from, () => mutant.to))
  try {
    const { failed, output, passed } = run(directory, [mutant])
    const finder = failed.find((title) => !failing.has(title))
    if (finder !== undefined) {
      console.log(`found     ${mutant.name}\n          by ${finder}`)
      return undefined
    }
    return passed > 0
      ? `it survives ${mutant.by.join(" ")}`
      : `no test ran, so none found it: choose one that fails no suite as a whole\n${tail(output)}`
  } finally {
    fs.writeFileSync(file, text)
  }
}

const directory = fs.mkdtempSync(path.join(tmpdir(), "mutants-"))
// Postgres may run as another user.
fs.chmodSync(directory, 0o755)
const [wanted = ""] = process.argv.slice(2)
const chosen = mutants.filter(({ file, name }) => name.includes(wanted) || file.includes(wanted))
let problems = 0
const report = (subject: string, problem: string) => {
  problems += 1
  console.log(`PROBLEM   ${subject}: ${problem}`)
}
try {
  copyTree(directory)
  const { failed, output, passed } = run(directory, chosen)
  if (failed.length > 0 || passed === 0) {
    report("without a planted bug", `${failed.join(", ") || "no test ran"}\n${tail(output)}`)
  }
  for (const mutant of chosen) {
    const problem = plant(directory, mutant, new Set(failed))
    if (problem !== undefined) report(mutant.name, problem)
  }
} finally {
  fs.rmSync(directory, { recursive: true, force: true })
}
console.log(`\n${chosen.length} bugs planted, ${problems} problems`)
process.exitCode = problems === 0 && chosen.length > 0 ? 0 : 1
