/** The declarations that the clients' packages ship, as `npm run build` makes them. */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"

const root = path.resolve(import.meta.dirname, "../..")

/** The files of an earlier run stay, so that the compiler writes only those that have changed. */
const emit = (config: string, directory: string, wanted: RegExp) => {
  const kept = ["--incremental", "--tsBuildInfoFile", path.join(directory, "build.json")]
  const args = ["-p", config, "--emitDeclarationOnly", ...kept, "--outDir", directory]
  const { status, stdout } = spawnSync(path.join(root, "node_modules/.bin/tsc"), args, { cwd: root, encoding: "utf8" })
  if (status !== 0) {
    process.stdout.write(`${stdout}\nThe clients' declarations were not made: mend these errors, and run it again.\n`)
    process.exit(1)
  }
  return fs.globSync("**/*.d.ts", { cwd: directory }).toSorted()
    .filter((file) => wanted.test(file) && fs.existsSync(path.join(root, "src", file.replace(/\.d\.ts$/, ".ts"))))
    .map((file) => `// ${file}\n${fs.readFileSync(path.join(directory, file), "utf8")}`)
    .join("\n")
}

const declarations = (name: string, config: string, wanted: RegExp) => {
  const directory = path.join(root, "node_modules/.cache/declarations", config)
  const golden = path.join(import.meta.dirname, "files", name)
  const text = emit(config, directory, wanted)
  if (fs.existsSync(golden) && text === fs.readFileSync(golden, "utf8")) return { [name]: text }
  // The order in a union depends on what an earlier run has left to do: the golden file is of a run that did it all.
  fs.rmSync(directory, { recursive: true })
  return { [name]: emit(config, directory, wanted) }
}

/** Of the package that has no dependency. A second. */
export const promiseTypes = () => declarations("client.d.txt", ".tsconfig.client.json", /./)

/** Of the clients for Effect and of the test kit: half a minute the first time, because they need the types of the whole service. */
export const effectTypes = () =>
  declarations(
    "effect.d.txt",
    ".tsconfig.build.json",
    /^http\/client\/[^/]+\.d\.ts$|^http\/[^/]+\/[^/]*Client\.d\.ts$|^runtime\/testing\//
  )
