/**
 * Writes package.json and README.md of the client's package into the directory to which `tsc` compiled it. The page links to the
 * repository that package.json names, which the release sets; without one its links are words.
 */
import * as fs from "node:fs"
import * as path from "node:path"

const directory = process.argv[2] ?? "dist-client"
const service = JSON.parse(fs.readFileSync("package.json", "utf8"))

const entry = (name) => ({ types: `./http/client/${name}.d.ts`, default: `./http/client/${name}.js` })

const manifest = {
  name: "async-task-service-client",
  version: service.version,
  private: service.private,
  description: "Client of the Asynchronous Task Service: tasks, tools, files, events, webhook verification, and cores",
  license: service.license,
  keywords: service.keywords,
  homepage: service.homepage,
  repository: service.repository,
  bugs: service.bugs,
  type: "module",
  sideEffects: false,
  exports: {
    ".": entry("Client"),
    "./core": entry("Core"),
    "./webhooks": entry("Webhooks"),
    "./package.json": "./package.json"
  },
  engines: { node: ">=20" }
}

fs.writeFileSync(`${directory}/package.json`, `${JSON.stringify(manifest, null, 2)}\n`)

const page = "src/http/client/promise/README.md"
const base = service.homepage
fs.writeFileSync(
  `${directory}/README.md`,
  fs.readFileSync(page, "utf8").replaceAll(
    /\[([^\]]+)\]\((?!https?:|#)([^)]+)\)/g,
    (_, words, link) =>
      base ? `[${words}](${base}/blob/v${service.version}/${path.posix.join(path.dirname(page), link)})` : words
  )
)

/** The receivers that the tests run, as examples. */
const receivers = "test/http/client/receivers"
fs.mkdirSync(`${directory}/examples`, { recursive: true })
for (const name of fs.readdirSync(receivers)) {
  const code = fs.readFileSync(`${receivers}/${name}`, "utf8").replaceAll(
    /"[./]+\/src\/http\/client\/Webhooks.ts"/g,
    `"${manifest.name}/webhooks"`
  )
  fs.writeFileSync(`${directory}/examples/${name}`, code)
}
