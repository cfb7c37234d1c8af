/** Programs of others beside a service of their own: generated clients, SDKs and official kits, in a temporary folder. */
import { execFile, execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { promisify } from "node:util"
import { mint, Service } from "./Service.ts"
import { startPostgres } from "./standalone.ts"

export class Consumers {
  readonly folder = fs.mkdtempSync(path.join(tmpdir(), "async-task-service-consumers-"))
  service!: Service

  /** Starts the service, with its own core and backend unless `settings` say otherwise, and runs `work`. */
  static async run(settings: Readonly<Record<string, string>>, work: (all: Consumers) => Promise<void>, main?: string) {
    const all = new Consumers()
    const database = await startPostgres()
    const DATA_DIR = path.join(all.folder, "data")
    const own = { DATABASE_URL: database.url, DATA_DIR, CORE_URL: "", ASSISTANT_BACKEND_URL: "" }
    try {
      all.service = await Service.start({ ...own, ...settings }, undefined, main)
      await work(all)
    } finally {
      await all.service.stop()
      await database.stop()
      fs.rmSync(all.folder, { recursive: true, force: true })
    }
  }

  /** Installs packages, or those of a `package.json`, into a folder inside. */
  install(packages: ReadonlyArray<string> | string, inside = "") {
    const cwd = path.join(this.folder, inside)
    fs.mkdirSync(cwd, { recursive: true })
    if (typeof packages === "string") fs.copyFileSync(packages, path.join(cwd, "package.json"))
    const given = typeof packages === "string" ? [] : packages
    const flags = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    execFileSync("npm", ["install", ...flags, ...given], { cwd, stdio: "inherit" })
    return cwd
  }

  /** Runs a program as a user of its name, and returns the JSON that it prints. */
  async use(name: string, file: string, inside = "") {
    const env = { ...process.env, SERVICE_URL: this.service.url, TOKEN: await mint(name) }
    const options = { cwd: path.join(this.folder, inside), env, timeout: 60_000 }
    return JSON.parse((await promisify(execFile)(process.execPath, [file], options)).stdout)
  }
}
