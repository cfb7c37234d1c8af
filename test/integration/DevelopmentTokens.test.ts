/** What a developer learns about tokens: from the start of the service, and from the command that mints them. */
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import { assert, describe, it, onTestFinished } from "vitest"
import { commandLine, jwtSecret } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const DATA_DIR = useDirectory()
/** The second secret signs nothing. */
const JWT_SECRET = `${jwtSecret.replaceAll(",", "%2C")},${"0123456789abcdef".repeat(2)}`
const JWT_AUDIENCE = "tasks"
const { service } = await use(startSystem({ CORE_URL: "", DATA_DIR, JWT_SECRET, JWT_AUDIENCE }))

const mint = (env: Readonly<Record<string, string>>) =>
  promisify(execFile)(process.execPath, [commandLine, "token", "--url", service.url], {
    env: { PATH: process.env["PATH"], DATA_DIR, ...env }
  })

describe("a service with JWT_SECRET", () => {
  it("says in one line why it prints no token and which command mints one", async () => {
    const output = await service.logged(/ {2}Token/)
    assert.match(output, /^ {2}Token {5}none, because JWT_SECRET is set; mint one: JWT_SECRET=… npx .* token$/m)
    assert.notInclude(output, jwtSecret)
  })

  it("takes the token of a shell with the same settings, line breaks around them included", async () => {
    const { stderr, stdout } = await mint({ JWT_SECRET: `${JWT_SECRET}\n`, JWT_AUDIENCE })
    assert.strictEqual(stderr, "")
    assert.strictEqual((await service.call("GET", "/api/tasks", stdout.trim())).status, 200)
  })

  it("is named by a shell that mints with another key, or without its audience", async () => {
    fs.writeFileSync(path.join(DATA_DIR, "jwt-secret"), "x".repeat(44))
    const other = await mint({ JWT_AUDIENCE })
    assert.match(
      other.stderr,
      /^Warning: the service at .* refuses this token, which is signed with the key in DATA_DIR\. .*The signature does not match/
    )
    assert.strictEqual((await service.call("GET", "/api/tasks", other.stdout.trim())).status, 401)
    assert.match((await mint({ JWT_SECRET: "y".repeat(32), JWT_AUDIENCE })).stderr, /is signed with JWT_SECRET\./)
    assert.match((await mint({ JWT_SECRET })).stderr, /Give this command the JWT_SECRET, JWT_ISSUER, JWT_AUDIENCE/)
  })

  it("that is away is not missed", async () => {
    const { stderr, stdout } = await promisify(execFile)(
      process.execPath,
      [commandLine, "token", "--url", "http://127.0.0.1:9"],
      { env: { PATH: process.env["PATH"], JWT_SECRET } }
    )
    assert.strictEqual(stderr, "")
    assert.match(stdout, /^eyJ/)
  })
})

describe("a development service", () => {
  it("prints a token that has what its settings require", async () => {
    const directory = useDirectory(onTestFinished)
    const own = await startSystem({ CORE_URL: "", DATA_DIR: directory, JWT_SECRET: "", JWT_AUDIENCE, JWT_ISSUER: "us" })
    const output = await own.service.logged(/Try it/)
    const [, token = ""] = /^ {2}Token {5}(\S+)$/m.exec(output) ?? []
    assert.strictEqual((await own.service.call("GET", "/api/tasks", token)).status, 200)
    await own.close()
  })
})
