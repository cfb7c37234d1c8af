/** The declarations that the clients' packages ship, as `npm run build` makes them. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { removeDirectory, temporaryDirectory } from "../kit/directories.ts"

const root = path.resolve(import.meta.dirname, "../..")

const declarations = (config: string, wanted: RegExp) => {
  const directory = temporaryDirectory()
  try {
    const args = ["-p", config, "--emitDeclarationOnly", "--outDir", directory]
    execFileSync(path.join(root, "node_modules/.bin/tsc"), args, { cwd: root, stdio: "pipe" })
    return fs.globSync("**/*.d.ts", { cwd: directory }).filter((file) => wanted.test(file)).toSorted()
      .map((file) => `// ${file}\n${fs.readFileSync(path.join(directory, file), "utf8")}`)
      .join("\n")
  } finally {
    removeDirectory(directory)
  }
}

/** Of the package that has no dependency. A second. */
export const promiseTypes = () => ({ "client.d.txt": declarations(".tsconfig.client.json", /./) })

/** Of the clients for Effect and of the test kit: half a minute, because they need the types of the whole service. */
export const effectTypes = () => ({
  "effect.d.txt": declarations(
    ".tsconfig.build.json",
    /^http\/client\/[^/]+\.d\.ts$|^http\/[^/]+\/[^/]*Client\.d\.ts$|^runtime\/testing\//
  )
})
