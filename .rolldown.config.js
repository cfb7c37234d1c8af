/**
 * Bundles the command line, the service and its reader of documents with all libraries, so that they start fast and need no
 * node_modules. The directory has the depth of `src/runtime`, from which `Version.ts` finds package.json; the reader is next to
 * the chunk that starts it.
 */
import * as fs from "node:fs"
import * as http from "node:http"
import * as path from "node:path"

/** An import of `node:http` reads all its exports, and these load Node's own undici: 5 MiB and 20 ms. Nothing uses them. */
const httpExportsOfUndici = ["CloseEvent", "MessageEvent", "WebSocket"]

const httpWithoutUndici = {
  name: "http-without-undici",
  resolveId: (id, _, { kind }) => id === "node:http" && kind === "import-statement" ? { id: "\0http" } : undefined,
  load: (id) => {
    if (id !== "\0http") return
    const names = Object.keys(http.default).filter((name) => !httpExportsOfUndici.includes(name))
    return `export const { ${names.join(", ")} } = process.getBuiltinModule("node:http")`
  }
}

/** The part of undici that the service and Effect use: less than half of its source, which the heap keeps. */
const usedUndici = `import Dispatcher from "undici/lib/dispatcher/dispatcher.js"
import api from "undici/lib/api/index.js"
Object.assign(Dispatcher.prototype, api)
export { default as Agent } from "undici/lib/dispatcher/agent.js"
export { default as Pool } from "undici/lib/dispatcher/pool.js"
export { default as ProxyAgent } from "undici/lib/dispatcher/proxy-agent.js"
export { default as buildConnector } from "undici/lib/core/connect.js"
export { default as errors } from "undici/lib/core/errors.js"
export { getGlobalDispatcher, setGlobalDispatcher } from "undici/lib/global.js"
export { FormData } from "undici/lib/web/fetch/formdata.js"
`

const smallUndici = {
  name: "small-undici",
  resolveId: (id) => /^(\.\/Undici\.js|@effect\/platform-node\/Undici)$/.test(id) ? { id: "\0undici" } : undefined,
  load: (id) => id === "\0undici" ? usedUndici : undefined
}

/** One character beyond Latin-1 doubles the memory of the source that has it. */
const latin1 = {
  name: "latin1",
  generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle)) {
      if (chunk.type !== "chunk") continue
      if (/\\[^\0-\xff]/.test(chunk.code)) throw new Error(`${chunk.fileName}: an escaped character beyond Latin-1`)
      chunk.code = chunk.code.replace(/[^\0-\xff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    }
  }
}

/** The console is bundled apart, from these. */
const librariesOfTheConsole = ["@cfworker/json-schema", "@preact/signals", "@preact/signals-core", "marked", "preact"]

/** Writes the licences of all libraries whose code is in the bundle. */
const notices = {
  name: "notices",
  generateBundle(_, bundle) {
    const ids = Object.values(bundle).flatMap(({ moduleIds = [] }) => moduleIds)
    const folders = new Set(librariesOfTheConsole.map((name) => path.resolve("node_modules", name)))
    for (const id of ids) {
      const [folder] = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id) ?? []
      if (folder !== undefined) folders.add(folder)
    }
    const notices = [...folders].toSorted().map((folder) => {
      const { license, name, version } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"))
      const texts = fs.readdirSync(folder).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file)).toSorted()
        .map((file) => fs.readFileSync(path.join(folder, file), "utf8").trim())
      return [`${name} ${version} (${license})`, ...texts].join("\n\n")
    })
    this.emitFile({
      type: "asset",
      fileName: "THIRD-PARTY-NOTICES.txt",
      source: `${notices.join(`\n\n${"-".repeat(80)}\n\n`)}\n`
    })
  }
}

export default {
  input: {
    Cli: "src/runtime/cli/Cli.ts",
    // What the tests start: a tenth faster than `Cli serve`.
    Main: "src/runtime/Main.ts",
    extractText: "src/runtime/builtin/backend/extractText.ts"
  },
  platform: "node",
  // Bundles the console in a checkout; a package has the bundled files.
  external: ["rolldown"],
  plugins: [httpWithoutUndici, smallUndici, latin1, notices],
  // As in Node itself: without undici's second parser.
  transform: { define: { esbuildDetection: "true" } },
  // Effect names its fields by constants: as literals they are found faster, which is 4 % of the CPU of a task. Some constants are made
  // of others, so there are several passes.
  optimization: { inlineConst: { mode: "all", pass: 3 } },
  output: { dir: "dist/bin", comments: { jsdoc: false } }
}
