/** The bundle of an installed package: start-up, idle memory, and the processes and libraries that it starts on demand. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { removeDirectory, temporaryDirectory } from "../kit/directories.ts"
import { docx, pdf, workbook } from "../kit/documents.ts"
import { ModelMock } from "../kit/ModelMock.ts"
import { mint, Service } from "../kit/Service.ts"
import { median } from "../kit/statistics.ts"

/** MiB of resident memory. */
const memoryOf = ({ process: { pid } }: Service) =>
  Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024

const measuredStarts = 5

/** MiB of an idle node. */
const maxIdleMemory = 130

/** Starts the package several times on a database. The first start, which migrates, is not measured. */
export const startOften = async (cli: string, settings: Readonly<Record<string, string>>) => {
  const start = () => Service.start(settings, undefined, [cli, "serve"])
  let service = await start()
  const times: Array<number> = []
  for (let count = 0; count < measuredStarts; count++) {
    await service.stop()
    const startedAt = performance.now()
    service = await start()
    times.push((performance.now() - startedAt) / 1000)
  }
  await new Promise((resolve) => setTimeout(resolve, 5000))
  const ready = `ready after ${median(times).toFixed(2)} s (median of ${measuredStarts} starts)`
  const memory = memoryOf(service)
  if (memory > maxIdleMemory) throw new Error(`an idle node has ${memory.toFixed(0)} MiB`)
  return { service, figures: `${ready}, ${memory.toFixed(0)} MiB when idle` }
}

/** MB. */
export const sizeOf = (directory: string) =>
  Number(execFileSync("du", ["-s", "-B1000000", directory], { encoding: "utf8" }).split("\t")[0])

const maxProductionSize = 120

/** Installs a checkout without development and optional packages, and starts its sources. */
export const installProduction = async (root: string, settings: Readonly<Record<string, string>>) => {
  const directory = temporaryDirectory()
  for (const name of ["package.json", "package-lock.json", ".npmrc", "src"]) {
    fs.cpSync(path.join(root, name), path.join(directory, name), { recursive: true })
  }
  execFileSync("npm", ["ci", "--silent", "--omit=dev", "--omit=optional"], { cwd: directory })
  const size = sizeOf(path.join(directory, "node_modules"))
  if (size >= maxProductionSize) throw new Error(`a production install has ${size} MB`)
  const service = await Service.start(settings, undefined, path.join(directory, "src/runtime/Main.ts"))
  await service.stop()
  removeDirectory(directory)
  return `${size} MB, starts`
}

/** The seconds of the fastest of three calls of a command. */
export const secondsOf = (command: string, args: ReadonlyArray<string>) => {
  const times = Array.from({ length: 3 }, () => {
    const startedAt = performance.now()
    execFileSync(command, args, { cwd: os.tmpdir() })
    return performance.now() - startedAt
  })
  return `${(Math.min(...times) / 1000).toFixed(2)} s`
}

/** Creates a task whose body is decoded by the thread for large bodies. */
export const createLarge = async (service: Service) => {
  const { body, status } = await service.create(await mint("large"), "a".repeat(2_000_000))
  if (status !== 201) throw new Error(`a large body: ${status} ${JSON.stringify(body)}`)
}

/** Runs a task with a model, which the bundled undici calls. */
export const callModel = async (cli: string, settings: Readonly<Record<string, string>>) => {
  const mock = await ModelMock.start([{ match: { userMessage: "model" }, response: { content: "called" } }])
  const model = { OPENAI_BASE_URL: mock.url, OPENAI_MODEL: "mock" }
  const service = await Service.start({ ...settings, ...model }, undefined, [cli, "serve"])
  const token = await mint("model")
  const { body } = await service.create(token, "model", { assistant_id: 10 })
  await service.until(token, body.uuid, "completed")
  await service.stop()
  await mock.close()
}

/** Has an assistant read a document of each format. */
export const readDocuments = async (service: Service) => {
  const token = await mint("documents")
  const word = "installed"
  const documents = {
    txt: Buffer.from(word),
    pdf: pdf(word),
    docx: docx(word),
    xlsx: workbook("xlsx", [[word]]),
    xls: workbook("biff8", [[word]])
  }
  for (const [format, bytes] of Object.entries(documents)) {
    const input = [{ type: "text", text: word }, await service.store(token, `document.${format}`, bytes)]
    const { body } = await service.create(token, "", { input })
    const { body: task } = await service.until(token, body.uuid, "completed")
    const answer = JSON.stringify(task.turn.output)
    if (!answer.includes(word)) throw new Error(`${format}: ${answer}`)
  }
  return Object.keys(documents).join(" ")
}

/** The Effect clients in a program that has an older `effect`, which is then the only one. */
export const useOlderEffect = (
  directory: string,
  version: string,
  tarballs: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>
) => {
  const run = (command: string, args: ReadonlyArray<string>) =>
    execFileSync(command, args, { cwd: directory, encoding: "utf8", env: { ...process.env, ...env } }).trim()
  const user = path.join(import.meta.dirname, "user")
  fs.mkdirSync(directory)
  for (const name of ["effect.ts", "package.json"]) fs.copyFileSync(path.join(user, name), path.join(directory, name))
  const { compilerOptions } = JSON.parse(fs.readFileSync(path.join(user, "tsconfig.json"), "utf8"))
  fs.writeFileSync(path.join(directory, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["effect.ts"] }))
  run("npm", ["install", "--silent", "--no-audit", "--no-fund", "--omit=optional", `effect@${version}`, ...tarballs])
  const copies = fs.globSync("**/node_modules/effect/package.json", { cwd: directory })
  const versions = copies.map((file) => JSON.parse(fs.readFileSync(path.join(directory, file), "utf8")).version)
  if (versions.join() !== version) throw new Error(`effect is installed as ${versions.join()}`)
  run(process.execPath, [path.resolve(import.meta.dirname, "../../node_modules/typescript/bin/tsc"), "-p", "."])
  return run(process.execPath, ["out/effect.js"])
}
