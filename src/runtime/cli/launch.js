#!/usr/bin/env node
/** Starts the command line: of a checkout, or of the build. If this Node is too old, the one that npm installed beside it runs it. */
import { spawn } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = new URL("../../../", import.meta.url)
const source = new URL("Cli.ts", import.meta.url)
const cli = existsSync(source) ? source : new URL("dist/bin/Cli.js", root)
const { engines, optionalDependencies } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"))
const minimum = engines.node.replace(/^>=/, "")

/** `localeCompare` would load Unicode's tables, 3 MiB for as long as the service runs. */
const numberOf = (version) => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  return 1000 * major + minor
}

/** The path of a Node that npm installed. */
const findNode = () => {
  const { resolve } = createRequire(import.meta.url)
  for (const name of Object.keys(optionalDependencies)) {
    if (!name.startsWith("node-")) continue
    try {
      const file = path.join(path.dirname(resolve(`${name}/package.json`)), "bin/node")
      if (existsSync(file)) return file
    } catch {
      // It is for another system.
    }
  }
}

if (numberOf(process.versions.node) >= numberOf(minimum)) {
  await import(cli.href)
} else {
  const node = findNode()
  if (node === undefined) {
    process.stderr.write(`Node ${process.versions.node} is too old: ${minimum} or later is required\n`)
    process.exit(1)
  }
  const child = spawn(node, [fileURLToPath(cli), ...process.argv.slice(2)], { stdio: "inherit" })
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal))
  child.on("exit", (code, signal) => {
    // The loader of libraries has said which one it lacks.
    if (code === 127) {
      process.stderr.write(`On Debian and Ubuntu: apt-get install libatomic1. Or install Node ${minimum} or later\n`)
    }
    process.exit(code ?? (signal === null ? 1 : 128))
  })
}
