/** Bundles the console for browsers; `npm run build` writes the result into the package. */
import { Effect } from "effect"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { pathToFileURL } from "node:url"
import { gzipSync } from "node:zlib"
import { rolldown } from "rolldown"

export interface Asset {
  readonly contentType: string
  readonly bytes: Uint8Array
  readonly gzip: Uint8Array
}

const script = (folder: URL) =>
  Effect.tryPromise(() =>
    rolldown({
      input: new URL("main.tsx", folder).pathname,
      platform: "browser",
      logLevel: "warn"
    }).then((build) => build.generate({ format: "esm", minify: true, comments: false }))
  ).pipe(Effect.map(({ output: [{ code }] }) => code))

/** Style sheets in the order of their names, without comments and indentation. */
const styles = (folder: URL) =>
  fs.readdirSync(new URL("styles/", folder)).toSorted().map((name) =>
    fs.readFileSync(new URL(`styles/${name}`, folder), "utf8")
  ).join("\n").replace(/\/\*[\s\S]*?\*\//g, "").replace(/\s*\n\s*/g, "\n").trim()

const hashed = (kind: string, text: string) =>
  `app-${createHash("sha256").update(text).digest("hex").slice(0, 12)}.${kind}`

const asset = (contentType: string, text: string): Asset => {
  const bytes = Buffer.from(text)
  return { contentType: `${contentType}; charset=utf-8`, bytes, gzip: gzipSync(bytes, { level: 9 }) }
}

/** The files by name. Those of scripts and styles contain a hash, so that browsers may keep them. */
export const bundle = Effect.fnUntraced(function*(folder: URL) {
  const js = yield* script(folder)
  const css = styles(folder)
  const [jsName, cssName] = [hashed("js", js), hashed("css", css)]
  const html = fs.readFileSync(new URL("index.html", folder), "utf8").replace("app.js", jsName).replace(
    "app.css",
    cssName
  )
  return new Map([
    ["index.html", asset("text/html", html)],
    [jsName, asset("text/javascript", js)],
    [cssName, asset("text/css", css)]
  ])
})

/** Writes the files for a package, each also compressed. */
export const write = (from: URL, to: URL) =>
  Effect.map(bundle(from), (files) => {
    fs.mkdirSync(to, { recursive: true })
    for (const [name, { bytes, gzip }] of files) {
      fs.writeFileSync(new URL(name, to), bytes)
      fs.writeFileSync(new URL(`${name}.gz`, to), gzip)
    }
    const types = Object.fromEntries([...files].map(([name, { contentType }]) => [name, contentType]))
    fs.writeFileSync(new URL("manifest.json", to), JSON.stringify(types))
  })

if (import.meta.main) {
  const folder = pathToFileURL(`${process.argv[2]}`)
  Effect.runFork(write(new URL("../../../http/console/", import.meta.url), folder))
}
