/** The blocks of "Your agent in ten minutes", and of the page of cores, run as a reader would run them. */
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it, onTestFinished } from "vitest"
import { startCore } from "../kit/cores/startCore.ts"
import { openDatabase } from "../kit/databases.ts"
import { ModelMock } from "../kit/ModelMock.ts"
import { hasPython } from "../kit/python.ts"
import { freePort, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"

const root = path.resolve(import.meta.dirname, "../..")
const folder = useDirectory()
const read = (file: string) => fs.readFileSync(path.join(root, file), "utf8")

const section = read("README.md").split("## Your agent in ten minutes")[1]?.split("\n## ")[0] ?? ""
const blocksIn = (page: string) =>
  [...page.matchAll(/^```(\w+)\n(.*?)^```/gms)].map(([, language = "", code = ""]) => ({ language, code }))
const blocks = blocksIn(section)
const block = (language: string, index = 0) =>
  blocks.filter((one) => one.language === language)[index]?.code ?? assert.fail(`no block ${index} of ${language}`)

/** The variables of a command, with those that a reader replaces. */
const variablesOf = (command: string, given: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    [...command.matchAll(/\b([A-Z][A-Z_]+)=(\S+)/g)].map(([, name = "", value = ""]) => [name, given[name] ?? value])
  )

const installed = path.join(folder, "node_modules/async-task-service-client")
const problemsOf = (args: ReadonlyArray<string>) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" })
  return status === 0 ? "" : stdout + stderr
}
// `npm run build:client`, and the installation.
const tsc = "node_modules/typescript/bin/tsc"
assert.strictEqual(problemsOf([tsc, "-p", ".tsconfig.client.json", "--outDir", installed]), "")
assert.strictEqual(problemsOf([".client-package.js", installed]), "")
fs.symlinkSync(path.join(root, "node_modules/jose"), path.join(folder, "node_modules/jose"))
// As `npm init` writes it.
fs.writeFileSync(path.join(folder, "package.json"), "{\"type\": \"commonjs\"}")

/** Starts the program of a block. */
const start = (name: string, code: string, variables: Readonly<Record<string, string>>) => {
  const file = path.join(folder, name)
  fs.writeFileSync(file, code)
  return startCore(file, variables)
}

const textOf = async (service: Service, token: string, create: object) => {
  const { body: { uuid } } = await service.call("POST", "/api/tasks", token, create)
  return (await service.until(token, uuid, "completed")).body.turn.output[0].text
}
const question = { assistant_id: 20, input: [{ type: "text", text: "Why?" }] }

describe("the README", () => {
  it("has no block that this suite does not know", () => {
    assert.deepStrictEqual(blocks.map(({ language }) => language), ["yaml", "sh", "js", "py", "sh", "js", "sh"])
  })

  it("runs an assistant without code", async () => {
    const mock = await use(
      ModelMock.start([{ match: { userMessage: "Why" }, response: { content: "So." } }]),
      onTestFinished
    )
    const file = path.join(folder, "assistants.yaml")
    fs.writeFileSync(file, block("yaml").replace(/"https:[^"]*"/, JSON.stringify(mock.url)))
    const variables = variablesOf(block("sh"), { ASSISTANTS_FILE: file, OPENAI_API_KEY: "key" })
    assert.sameMembers(Object.keys(variables), ["ASSISTANTS_FILE", "OPENAI_API_KEY"])
    const database = await use(openDatabase(), onTestFinished)
    const settings = { DATABASE_URL: database.url, DATA_DIR: useDirectory(onTestFinished), ...variables }
    const service = await use(Service.start(settings), onTestFinished)
    assert.strictEqual(await textOf(service, await mint("reader"), question), "So.")
  })

  for (const [language, name] of [["js", "core.mjs"], ["py", "core.py"]] as const) {
    it.skipIf(language === "py" && !hasPython)(`runs ${name} with the settings that the service prints`, async () => {
      const [service = "", core = ""] = block("sh", 1).split("\n")
      const port = String(await freePort())
      const database = await use(openDatabase(), onTestFinished)
      const settings = { DATABASE_URL: database.url, DATA_DIR: useDirectory(onTestFinished), INTERNAL_TOKENS: "" }
      const coreUrl = variablesOf(service, {})["CORE_URL"]?.replace("3001", port) ?? ""
      const started = await use(Service.start({ ...settings, CORE_URL: coreUrl }), onTestFinished)
      const printed = variablesOf(await started.logged(/CORE_EVENT_TOKENS=/), {})
      assert.sameMembers(Object.keys(variablesOf(core, {})), ["CORE_TOKEN", "CORE_EVENT_TOKENS"])
      await start(name, block(language), { ...variablesOf(core, printed), PORT: port })
      assert.strictEqual(await textOf(started, await mint("reader"), question), "You said: Why?")
    })
  }

  it("names what production needs", async () => {
    const cli = (...args: ReadonlyArray<string>) => ["src/runtime/cli/Cli.ts", ...args]
    const commands = block("sh", 2)
    for (const command of ["Cli.ts init", "Cli.ts token --sub user-7"]) assert.include(commands, command)
    const secrets = variablesOf(execFileSync(process.execPath, cli("init"), { cwd: root, encoding: "utf8" }), {})
    const database = await use(openDatabase(), onTestFinished)
    const port = String(await freePort())
    const publicPort = await freePort()
    const { POSTGRES_PASSWORD: _, ...variables } = {
      ...secrets,
      ...variablesOf(commands.split("\n").filter((line) => line.startsWith("export")).join("\n"), {
        DATABASE_URL: database.url,
        PUBLIC_URL: `http://127.0.0.1:${publicPort}`,
        CORE_URL: `http://127.0.0.1:${port}`,
        FILES_DIR: path.join(folder, "files")
      })
    }
    await start("core.mjs", block("js"), { ...variables, PORT: port })
    const service = await use(Service.start(variables, publicPort), onTestFinished)
    const env = { PATH: process.env["PATH"], ...variables }
    const js = path.join(folder, "token.mjs")
    fs.writeFileSync(js, block("js", 1))
    const tokens = [
      execFileSync(process.execPath, [js], { env, encoding: "utf8" }),
      execFileSync(process.execPath, cli("token", "--sub", "user-7"), { cwd: root, env, encoding: "utf8" }),
      execFileSync(process.execPath, cli("token", "mint", "--sub", "user-7"), { cwd: root, env, encoding: "utf8" })
    ]
    for (const token of tokens) {
      assert.strictEqual(await textOf(service, token.trim(), question), "You said: Why?")
      await service.store(token.trim(), "notes.txt", "hello")
    }
  })
})

describe("the page of cores", () => {
  const programs = blocksIn(read("src/http/client/core/README.md"))

  for (const [language, name] of [["ts", "files.mts"], ["py", "files.py"]] as const) {
    it.skipIf(language === "py" && !hasPython)(
      `has a core in ${language} that reads a file and asks the client`,
      async () => {
        const code = programs.find((one) => one.language === language)?.code ?? ""
        const tokens = { CORE_TOKEN: "token-of-the-core", CORE_EVENT_TOKENS: "token-of-its-events" }
        const port = String(await freePort())
        await start(name, code, { ...tokens, PORT: port })
        const database = await use(openDatabase(), onTestFinished)
        const settings = { DATABASE_URL: database.url, DATA_DIR: useDirectory(onTestFinished), ...tokens }
        const service = await use(Service.start({ ...settings, CORE_URL: `http://127.0.0.1:${port}` }), onTestFinished)
        const token = await mint("reader")
        const input = [await service.store(token, "notes.txt", "one\ntwo")]
        const tools = { client_tools: [{ type: "function", name: "ask" }] }
        const { body: { uuid } } = await service.call("POST", "/api/tasks", token, { assistant_id: 1, input, ...tools })
        const { body: { pending_tool_calls: [call] } } = await service.until(token, uuid, "interrupted")
        assert.deepStrictEqual(call.arguments, { file: "notes.txt" })
        const results = [{ tool_call_id: call.id, output: "yes" }]
        await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, { results })
        const { body } = await service.until(token, uuid, "completed")
        assert.deepStrictEqual(JSON.parse(body.turn.output[0].text), { lines: 2, answer: "yes" })
        assert.deepInclude(body.turn.metadata.usage, { input_tokens: 14, output_tokens: 2 })
        const { body: { uuid: without } } = await service.create(token, "no file")
        assert.strictEqual((await service.until(token, without, "failed")).body.error, "Attach a file")
      }
    )
  }
})
