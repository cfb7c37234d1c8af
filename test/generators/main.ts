/**
 * Generates clients from `/openapi.json`, compiles a small application for each in strict mode and runs it against the
 * service: `npm run test:generators`. The generators are installed into a temporary folder.
 */
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { rolldown } from "rolldown"
import { Consumers } from "../kit/consumers.ts"
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

/** The application of each generator, with the command that generates its client. */
const generators: Readonly<Record<string, ReadonlyArray<string>>> = {
  openapiFetch: ["openapi-typescript", "openapi.json", "-o", "generated/openapi-typescript/schema.ts"],
  orval: ["orval", "--config", "orval.config.mjs"],
  heyApi: ["openapi-ts", "--input", "openapi.json", "--output", "generated/hey-api"]
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

await Consumers.run({}, async (all) => {
  const { folder, service } = all
  const bin = ([name = "", ...args]: ReadonlyArray<string>) =>
    execFileSync(path.join(folder, "node_modules/.bin", name), args, {
      cwd: folder,
      stdio: ["ignore", "pipe", "inherit"]
    })
  const write = (name: string, content: unknown) =>
    fs.writeFileSync(path.join(folder, name), typeof content === "string" ? content : JSON.stringify(content))

  fs.cpSync(path.join(import.meta.dirname, "apps"), folder, { recursive: true })
  write("package.json", { type: "module" })
  all.install(packages)
  write("openapi.json", await (await fetch(`${service.url}/openapi.json`)).text())
  const output = { target: "generated/orval/api.ts", client: "fetch", baseUrl: service.url }
  write("orval.config.mjs", `export default { service: ${JSON.stringify({ input: "openapi.json", output })} }`)
  for (const [name, generate] of Object.entries(generators)) {
    bin(generate)
    write("tsconfig.json", { compilerOptions, files: [`${name}.ts`] })
    bin(["tsc", "-p", "."])
    const bundle = await rolldown({ input: path.join(folder, `${name}.ts`), platform: "node", logLevel: "silent" })
    await bundle.write({ file: path.join(folder, `${name}.js`) })
    assert.deepEqual(await all.use(name, `${name}.js`), expected, name)
    console.log(`${name.padEnd(14)} generated, compiled in strict mode, ran`)
  }
})
