/** Runs a program of each version of the official A2A client against the service. The packages are installed into a temporary folder. */
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { mint, Service } from "../../kit/Service.ts"
import { startPostgres } from "../../kit/standalone.ts"

const programs = {
  a2a: {
    answered: ["COMPLETED", "42"],
    continued: [true, "2"],
    withFile: ["COMPLETED", true],
    asked: ["INPUT_REQUIRED", "weather"],
    called: [true, "COMPLETED"],
    streamed: [["task", "artifactUpdate", "statusUpdate"], "42"],
    subscribed: ["task", "CANCELED"],
    canceled: "CANCELED",
    got: [true],
    listed: 6,
    failures: [
      "JsonRpcTaskNotFoundError",
      "JsonRpcTaskNotCancelableError",
      "JsonRpcUnsupportedOperationError",
      "JsonRpcContentTypeNotSupportedError",
      "PushNotificationNotSupportedError"
    ]
  },
  a2aLegacy: {
    answered: ["task", "completed", "42"],
    withFile: ["completed", true],
    asked: ["input-required", "weather"],
    called: [true, "completed"],
    streamed: [["task", "artifact-update", "status-update"], "42"],
    subscribed: ["task", "canceled", true],
    canceled: "canceled",
    got: true,
    failures: ["TaskNotFoundJSONRPCError", "TaskNotCancelableJSONRPCError", "Error"]
  }
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-a2a-"))
const database = await startPostgres()
const service = await Service.start({
  DATABASE_URL: database.url,
  DATA_DIR: path.join(folder, "data"),
  CORE_URL: "",
  ASSISTANT_BACKEND_URL: "",
  FACADE_MODELS: "rules=1"
})
try {
  for (const [name, found] of Object.entries(programs)) {
    const cwd = path.join(folder, name)
    fs.mkdirSync(cwd)
    fs.copyFileSync(path.join(import.meta.dirname, `${name}.json`), path.join(cwd, "package.json"))
    fs.copyFileSync(path.join(import.meta.dirname, `../apps/${name}.ts`), path.join(cwd, "main.ts"))
    const install = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    execFileSync("npm", install, { cwd, stdio: "inherit" })
    const env = { ...process.env, SERVICE_URL: service.url, TOKEN: await mint(name) }
    const output = execFileSync(process.execPath, ["main.ts"], { cwd, encoding: "utf8", timeout: 60_000, env })
    assert.deepEqual(JSON.parse(output), found, name)
    console.log(`${name}: every method`)
  }
} finally {
  await service.stop()
  await database.stop()
  fs.rmSync(folder, { recursive: true, force: true })
}
