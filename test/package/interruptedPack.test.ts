/** `npm pack` that is interrupted, in a copy of the checkout's manifest. */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, it } from "vitest"
import { useDirectory } from "../kit/suite.ts"

const root = path.join(import.meta.dirname, "../..")
const directory = useDirectory()
const file = path.join(directory, "package.json")
const original = fs.readFileSync(path.join(root, "package.json"), "utf8")

const read = () => fs.readFileSync(file, "utf8")
const run = (command: string, ...args: ReadonlyArray<string>) =>
  spawnSync(command, args, { cwd: directory, encoding: "utf8" })
const script = (...args: ReadonlyArray<string>) => run(process.execPath, ".service-package.js", ...args)

it("the next npm pack restores the manifest of the checkout and says so, and the one after it packs", () => {
  fs.writeFileSync(file, original)
  fs.copyFileSync(path.join(root, ".service-package.js"), path.join(directory, ".service-package.js"))
  assert.strictEqual(script().status, 0)
  assert.isUndefined(JSON.parse(read()).devDependencies)
  // Interrupted here.
  const next = run("npm", "pack", "--dry-run")
  assert.notStrictEqual(next.status, 0)
  assert.match(next.stderr, /an interrupted npm pack had left the package\.json of the package.*is restored: try again/)
  assert.strictEqual(read(), original)
  assert.strictEqual(script().status, 0)
  assert.strictEqual(script("restore").status, 0)
  assert.strictEqual(read(), original)
  assert.strictEqual(script("restore").status, 0)
  assert.strictEqual(read(), original)
})

it("a manifest that was restored with git is packed as it is, and one that cannot be restored is named", () => {
  fs.writeFileSync(file, original)
  assert.strictEqual(script().status, 0)
  const edited = original.replace(/"version": "[^"]+"/, "\"version\": \"9.9.9\"")
  fs.writeFileSync(file, edited)
  assert.strictEqual(script().status, 0)
  assert.strictEqual(script("restore").status, 0)
  assert.strictEqual(read(), edited)
  assert.strictEqual(script().status, 0)
  fs.rmSync(path.join(directory, "node_modules"), { recursive: true })
  for (const args of [[], ["restore"]]) {
    const { status, stderr } = script(...args)
    assert.notStrictEqual(status, 0)
    assert.include(stderr, "restore it with git")
  }
})
