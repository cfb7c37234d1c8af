/**
 * Runs a program of each SDK that speaks the OpenAI protocol against the service: `npm run test:sdks`. The packages of `package.json`
 * beside this file are installed into a temporary folder.
 */
import assert from "node:assert/strict"
import * as fs from "node:fs"
import * as path from "node:path"
import { Consumers } from "../kit/consumers.ts"
import { mint } from "../kit/Service.ts"
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

await Consumers.run({}, async (all) => {
  fs.cpSync(path.join(import.meta.dirname, "apps"), all.folder, { recursive: true })
  all.install(path.join(import.meta.dirname, "package.json"))
  for (const [name, { hasFile = false, more = {}, tasks }] of Object.entries(programs)) {
    const began = performance.now()
    const { file: described, ...printed } = await all.use(name, `${name}.ts`)
    assert.deepEqual(printed, { ...found, ...more }, name)
    if (hasFile) assert.match(described, file, name)
    const { body } = await all.service.call("GET", "/api/tasks", await mint(name))
    assert.deepEqual(body.data.map(({ status }: { status: string }) => status), Array(tasks).fill("completed"), name)
    console.log(`${name.padEnd(11)} ${((performance.now() - began) / 1000).toFixed(1)} s`)
  }
})
