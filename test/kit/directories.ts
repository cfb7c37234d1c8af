/** Data directories for tests, with their removal: an embedded database may be stored outside its data directory. */
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"

export const temporaryDirectory = () => fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-test-"))

export const removeDirectory = (directory: string) => {
  for (const dataDir of [directory, path.join(directory, "data")]) {
    const name = path.join(dataDir, "database-name")
    if (!fs.existsSync(name)) continue
    fs.rmSync(path.join("/var/lib/async-task-service", fs.readFileSync(name, "utf8")), { recursive: true, force: true })
  }
  fs.rmSync(directory, { recursive: true, force: true })
}
