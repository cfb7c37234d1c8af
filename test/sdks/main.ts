/**
 * Runs a tool loop of `@openai/agents` and of `@ai-sdk/openai` against the OpenAI façade: `npm run test:sdks`. The packages are
 * installed into a temporary folder.
 */
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"

const packages = ["@openai/agents@0.20.0", "@ai-sdk/openai@4.0.118", "ai@7.0.173", "zod@4.6.7"]

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-sdks-"))
const database = await startPostgres()
const service = await Service.start({
  DATABASE_URL: database.url,
  DATA_DIR: path.join(folder, "data"),
  CORE_URL: "",
  ASSISTANT_BACKEND_URL: ""
})
try {
  fs.cpSync(path.join(import.meta.dirname, "apps"), folder, { recursive: true })
  fs.writeFileSync(path.join(folder, "package.json"), JSON.stringify({ type: "module" }))
  const install = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", ...packages]
  execFileSync("npm", install, { cwd: folder, stdio: "inherit" })
  for (const name of ["agents", "aiSdk"]) {
    const output = execFileSync(process.execPath, [`${name}.ts`], {
      cwd: folder,
      encoding: "utf8",
      timeout: 60_000,
      env: { ...process.env, SERVICE_URL: service.url, TOKEN: await mint(name) }
    })
    assert.match(output, /^call_weather answered "clear in call weather"$/, name)
    const { body } = await service.call("GET", "/api/tasks", await mint(name))
    assert.deepEqual(body.data.map(({ status }: { status: string }) => status), ["completed"], name)
    console.log(`${name.padEnd(7)} completed a tool loop in one task`)
  }
} finally {
  await service.stop()
  await database.stop()
  fs.rmSync(folder, { recursive: true, force: true })
}
