/** The command line: the output and the exit code of each command. */
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { commandsIn, runToEnd } from "../kit/runToEnd.ts"
import { commandLine, freePort, internalToken, jwtSecret, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const folder = useDirectory()
const { database, service } = await use(startSystem({ CORE_URL: "", DATA_DIR: folder }))

const settings = { DATABASE_URL: database.url, JWT_SECRET: jwtSecret, INTERNAL_TOKENS: internalToken, DATA_DIR: folder }
const environment = { ...settings, TASK_SERVICE_URL: service.url }

const { json, run } = commandsIn(environment)

describe("the command line", () => {
  it("creates and watches a task, with only the result on stdout", async () => {
    const { code, err, out } = await runToEnd(["create", "--watch", "What", "is", "6", "*", "7?"], environment)
    assert.strictEqual(code, 0, err)
    assert.match(out, /completed/)
    assert.match(out, /\n42$/)
    assert.match(err, /^created {2}[0-9a-f-]{36}\n.*pending\n/)
  })

  it("submits tool results and cancels tasks", async () => {
    const { uuid } = await json("create", "-a", "2", "--tool", "look", "call look")
    const watched = await run("watch", uuid)
    assert.deepStrictEqual([watched.code, /Waits for  call_look: look\({}\)/.test(watched.out)], [0, true])
    assert.deepStrictEqual(await json("submit-results", uuid, `call_look={"found": true}`), {
      uuid,
      status: "processing"
    })
    const resumed = await run("watch", uuid)
    assert.match(resumed.out, /call_look answered {"found":true}/)
    assert.match(resumed.err, /interrupted\n.*processing\n.*completed$/)
    const other = (await json("create", "-a", "2", "--tool", "look", "call look")).uuid
    await run("watch", other)
    assert.deepStrictEqual(await json("cancel", "--interrupted"), { canceled: 1, uuids: [other] })
    const again = await run("cancel", other)
    assert.deepStrictEqual([again.code, again.err], [1, "The task is canceled, not interrupted."])
    const watchedAgain = await run("watch", other)
    assert.deepStrictEqual([watchedAgain.code, /Task canceled/.test(watchedAgain.err)], [1, true])
    assert.deepStrictEqual((await json("list", "-s", "canceled", "-s", "failed")).map((task: any) => task.uuid), [
      other
    ])
    assert.lengthOf(await json("list", "-n", "1"), 1)
    const labelled = await json("create", "--metadata", "env=prod", "--metadata", "n=1", "echo x")
    const rerun = await json("rerun", labelled.uuid, "--body", `{"metadata": {"env": "prod", "n": "2"}}`)
    const found = await json("list", "--metadata", "env=prod", "--metadata", "n=2")
    assert.deepStrictEqual(found.map((task: any) => task.uuid), [rerun.uuid])
  })

  it("has only JSON on stderr with --json", async () => {
    const { code, err, out } = await run("create", "--watch", "--json", "-a", "404", "hello")
    assert.strictEqual(code, 1)
    assert.match(out, /"failed"/)
    assert.match(JSON.parse(err).message, /^Task failed/)
  })

  it("uploads files and attaches them to a task", async () => {
    const file = path.join(folder, "notes.txt")
    fs.writeFileSync(file, "hello")
    const { file: { name }, url } = await json("upload", file)
    assert.deepStrictEqual([name, await (await fetch(url)).text()], ["notes.txt", "hello"])
    assert.match((await run("create", "--watch", "-f", file, "summarize: it")).out, /completed/)
  })

  it("reports every invalid field and an unreachable service", async () => {
    const broken = await run("create", "-a", "0", "--body", `{"max_execution_time": 0}`, "x", "--json")
    assert.strictEqual(broken.code, 1)
    const { code, errors } = JSON.parse(broken.err)
    assert.strictEqual(code, "validation_failed")
    assert.sameMembers(Object.keys(errors), ["assistant_id", "max_execution_time"])
    const unknown = await run("get", "0192d4a0-0000-7000-8000-000000000000", "--json")
    assert.deepStrictEqual(JSON.parse(unknown.err), { message: "There is no such task.", code: "task_not_found" })
    const lost = await run("get", "x", "--url", "http://127.0.0.1:1")
    assert.strictEqual(lost.code, 1)
    assert.match(lost.err, /could not be reached/)
    const zero = await run("create", "-a", "0", "x")
    assert.deepStrictEqual([zero.code, /^assistant_id: .*$/.test(zero.err)], [1, true])
  })

  it("shows, lists and deletes a task with its metadata, and the text of the newest progress note", async () => {
    const text = "take 3"
    const { err, out } = await run("create", "--watch", "-a", "3", "--metadata", "shown=1", text)
    const uuid = /[0-9a-f-]{36}/.exec(out)?.[0] ?? ""
    assert.match(err, /progress  2 of 3/)
    const past = await run("watch", uuid)
    const notes = past.err.split("\n").filter((line) => line.includes("progress"))
    assert.deepStrictEqual(notes.map((line) => line.slice(8).trim()), ["progress", "progress  2 of 3 seconds"])
    assert.match((await run("get", uuid)).out, /^Metadata +shown=1$/m)
    const listed = await run("list", "--metadata", "shown=1", "-s", "failed,completed")
    assert.match(listed.out, /^TASK +STATUS +CREATED +METADATA +DETAILS\n.* shown=1$/)
    assert.deepStrictEqual(await json("delete", uuid), { uuid, deleted: true })
    assert.deepStrictEqual(await run("get", uuid), { code: 1, out: "", err: "There is no such task." })
  })

  it("names the command that continues an interrupted task, or frees a port", async () => {
    const waiting = await run("create", "--watch", "-a", "2", "--tool", "look", "call look")
    assert.match(waiting.err, /submit-results [0-9a-f-]{36} 'CALL=RESULT'$/)
    await run("cancel", "--interrupted")
    const taken = await runToEnd(["serve", "--test-clock", "--port", new URL(service.url).port], {})
    assert.strictEqual(taken.code, 1)
    assert.match(taken.err, /EADDRINUSE.*Set PORT to a free port$/)
  })

  it("reports a usage error in one line and names the help command", async () => {
    const missing = await runToEnd(["get"], environment)
    assert.deepStrictEqual([missing.code, missing.out], [2, ""])
    assert.strictEqual(missing.err, "Missing required argument: uuid\nSee async-task-service get --help")
    const unknown = await run("nonsense")
    assert.deepStrictEqual([unknown.code, unknown.out], [2, ""])
    assert.match(unknown.err, /^Unknown subcommand "nonsense".*\nSee async-task-service --help$/)
    const flags = await run("list", "--foo", "--json")
    assert.deepStrictEqual([flags.code, flags.out], [2, ""])
    assert.match(JSON.parse(flags.err).message, /^Unrecognized flag: --foo/)
  })

  it("mints and revokes tokens, migrates the database and diagnoses a deployment", async () => {
    const { token } = await json("token", "--sub", "rosa", "--jti", "one", "--valid-for", "1 hour")
    assert.strictEqual((await run("list", "--token", token)).out, "No tasks.")
    assert.deepStrictEqual(await json("revoke", "--jti", "one"), { revoked: true })
    assert.strictEqual((await run("list", "--token", token)).code, 1)
    assert.match((await run("revoke", "--jti", "a", "--sub", "b")).err, /Exactly one of jti, token and sub/)
    assert.deepStrictEqual(await json("migrate"), { migrated: true })
    const findings = await json("doctor")
    assert.deepStrictEqual(findings.map(({ check, ok }: any) => [check, ok]), [
      ["settings", true],
      ["names of tokens", true],
      ["database", true],
      ["core", true],
      ["backend", true],
      ["service", true],
      ["queue", true],
      ["silent runs", true],
      ["clock", true]
    ])
    const sick = await run("doctor", "--url", "http://127.0.0.1:1")
    assert.deepStrictEqual([sick.code, sick.err], [1, "Failed checks: service, clock"])
  })

  it("connects to the service at PORT and serves on --port", async () => {
    const listed = await runToEnd(["list", "--metadata", "absent=1"], { ...settings, PORT: new URL(service.url).port })
    assert.deepStrictEqual(listed, { code: 0, out: "No tasks.", err: "" })
    const port = await freePort()
    const command = [commandLine, "serve", "--port", String(port)]
    const started = await Service.start({ DATABASE_URL: database.url, DATA_DIR: folder, PORT: "1" }, port, command)
    await started.stop()
  })

  it("prints completions, and help without a command", async () => {
    assert.include((await run("--completions", "bash")).out, "redeliver")
    const help = await run()
    assert.deepStrictEqual([help.code, /^ {2}redeliver /m.test(help.out)], [0, true])
    assert.include((await run("create", "--help")).out, "--max-execution-time")
  })

  it("prints tables with ages, and colors only where they are wanted", async () => {
    const { uuid } = await json("create", "-a", "2", "--tool", "look", "call look")
    await run("watch", uuid)
    const [header, row] = (await run("list", "-n", "1")).out.split("\n")
    assert.match(header ?? "", /^TASK {34}STATUS {7}CREATED {2,3}DETAILS$/)
    assert.match(row ?? "", new RegExp(`^${uuid}  interrupted  \\d+ s ago +waits for look$`))
    const listed = (...more: ReadonlyArray<string>) =>
      runToEnd(["list", "-n", "1", ...more], { ...environment, FORCE_COLOR: "1" })
    assert.include((await listed()).out, "\u001B[33minterrupted\u001B[39m")
    assert.notInclude((await listed("--no-color")).out, "\u001B")
    await run("cancel", uuid)
  })
})
