/**
 * Runs a program of each SDK that speaks the OpenAI protocol against the service: `npm run test:sdks`. The packages of `package.json`
 * beside this file are installed into a temporary folder.
 */
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import type { Found } from "./apps/found.ts"

const found: Found = { text: "42", object: { answer: "42" }, called: `call_weather answered "clear in call weather"` }
const file = /^[\w.-]+\.png: image\/png, 8 bytes/
const models = [1, 2, 3, 4].map((id) => `assistant-${id}`)

/** What each program finds in addition to `found`, and the tasks that it makes. A tool loop is one task. */
const programs: Readonly<
  Record<string, { readonly tasks: number; readonly more?: object; readonly hasFile?: boolean }>
> = {
  openai: { tasks: 5, more: { models, streamed: "42" }, hasFile: true },
  agents: { tasks: 3 },
  aiGenerate: { tasks: 4, hasFile: true },
  aiStream: { tasks: 3 },
  langchain: { tasks: 3 }
}

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
  fs.copyFileSync(path.join(import.meta.dirname, "package.json"), path.join(folder, "package.json"))
  const install = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
  execFileSync("npm", install, { cwd: folder, stdio: "inherit" })
  for (const [name, { hasFile = false, more = {}, tasks }] of Object.entries(programs)) {
    const began = performance.now()
    const output = execFileSync(process.execPath, [`${name}.ts`], {
      cwd: folder,
      encoding: "utf8",
      timeout: 60_000,
      env: { ...process.env, SERVICE_URL: service.url, TOKEN: await mint(name) }
    })
    const { file: described, ...printed } = JSON.parse(output)
    assert.deepEqual(printed, { ...found, ...more }, name)
    if (hasFile) assert.match(described, file, name)
    const { body } = await service.call("GET", "/api/tasks", await mint(name))
    assert.deepEqual(body.data.map(({ status }: { status: string }) => status), Array(tasks).fill("completed"), name)
    console.log(`${name.padEnd(11)} ${((performance.now() - began) / 1000).toFixed(1)} s`)
  }
} finally {
  await service.stop()
  await database.stop()
  fs.rmSync(folder, { recursive: true, force: true })
}
