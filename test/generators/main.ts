/**
 * Generates clients from `/openapi.json`, compiles a small application for each in strict mode and runs it against the
 * service: `npm run test:generators`. The generators are installed into a temporary folder.
 */
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { rolldown } from "rolldown"
import { mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import type { Found } from "./apps/tour.ts"

/** openapi-typescript needs the compiler's interface, which later versions of TypeScript do not have. */
const packages = [
  "openapi-typescript@7.13.0",
  "openapi-fetch@0.17.0",
  "orval@8.33.0",
  "@hey-api/openapi-ts@0.99.0",
  "typescript@5.9.3",
  "@types/node@26.6.6"
]

const expected: Found = {
  uploaded: "notes.txt",
  called: ["weather"],
  text: `call_weather answered {"sky":"clear","city":"call weather"}`,
  events: ["pending", "processing", "interrupted", "processing", "completed"],
  completed: 2,
  completedOrFailed: 2,
  missing: "There is no such task."
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-generators-"))

const run = (command: string, args: ReadonlyArray<string>, env: Record<string, string> = {}) => {
  const stdio = ["ignore", "pipe", "inherit"] as const
  return execFileSync(command, args, {
    cwd: folder,
    encoding: "utf8",
    stdio: [...stdio],
    env: { ...process.env, ...env }
  })
}

const bin = (name: string, ...args: ReadonlyArray<string>) => run(path.join(folder, "node_modules/.bin", name), args)

/** The application of each generator, with the command that generates its client. */
const generators: Readonly<Record<string, () => unknown>> = {
  openapiFetch: () => bin("openapi-typescript", "openapi.json", "-o", "generated/openapi-typescript/schema.ts"),
  orval: () => bin("orval", "--config", "orval.config.mjs"),
  heyApi: () => bin("openapi-ts", "--input", "openapi.json", "--output", "generated/hey-api")
}

const compilerOptions = {
  target: "es2024",
  lib: ["es2024", "dom", "dom.iterable", "dom.asynciterable"],
  module: "preserve",
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  allowImportingTsExtensions: true,
  types: ["node"]
}

const write = (name: string, content: unknown) =>
  fs.writeFileSync(path.join(folder, name), typeof content === "string" ? content : JSON.stringify(content))

const database = await startPostgres()
const service = await Service.start({
  DATABASE_URL: database.url,
  DATA_DIR: path.join(folder, "data"),
  CORE_URL: "",
  ASSISTANT_BACKEND_URL: ""
})
try {
  fs.cpSync(path.join(import.meta.dirname, "apps"), folder, { recursive: true })
  write("package.json", { type: "module" })
  run("npm", ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", ...packages])
  write("openapi.json", await (await fetch(`${service.url}/openapi.json`)).text())
  const output = { target: "generated/orval/api.ts", client: "fetch", baseUrl: service.url }
  write("orval.config.mjs", `export default { service: ${JSON.stringify({ input: "openapi.json", output })} }`)
  for (const [name, generate] of Object.entries(generators)) {
    generate()
    write("tsconfig.json", { compilerOptions, files: [`${name}.ts`] })
    bin("tsc", "-p", ".")
    const bundle = await rolldown({ input: path.join(folder, `${name}.ts`), platform: "node", logLevel: "silent" })
    await bundle.write({ file: path.join(folder, `${name}.js`) })
    const env = { SERVICE_URL: service.url, TOKEN: await mint(name) }
    const found: Found = JSON.parse(run(process.execPath, [`${name}.js`], env))
    assert.deepEqual(found, expected, name)
    console.log(`${name.padEnd(14)} generated, compiled in strict mode, ran`)
  }
} finally {
  await service.stop()
  await database.stop()
  fs.rmSync(folder, { recursive: true, force: true })
}
