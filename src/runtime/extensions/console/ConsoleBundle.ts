/** Bundles the console for browsers; `npm run build` writes the result into the package. */
import { Effect } from "effect"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { pathToFileURL } from "node:url"
import { gzipSync } from "node:zlib"
import { type OutputChunk, rolldown } from "rolldown"

export interface Asset {
  readonly contentType: string
  readonly bytes: Uint8Array
  readonly gzip: Uint8Array
}

/** The scripts: that of the page, what it shares with others, and those that it loads when their screens are shown. Names contain a hash. */
const scripts = (folder: URL) =>
  Effect.tryPromise(() =>
    rolldown({
      input: { app: new URL("main.tsx", folder).pathname },
      platform: "browser",
      logLevel: "warn"
    }).then((build) =>
      build.generate({
        format: "esm",
        minify: true,
        comments: false,
        entryFileNames: "[name]-[hash:12].js",
        chunkFileNames: "part-[hash:12].js"
      })
    )
  ).pipe(Effect.map(({ output }) => output.filter((file) => file.type === "chunk")))

/** The scripts that one needs before it runs, itself first. */
const neededBy = (name: string, all: ReadonlyArray<OutputChunk>): ReadonlySet<string> => {
  const needed = new Set([name])
  for (const each of needed) {
    all.find(({ fileName }) => fileName === each)?.imports.forEach((other) => needed.add(other))
  }
  return needed
}

/** The style sheets, those of extensions last, without comments and indentation. */
const styles = (folder: URL) =>
  [
    ...fs.globSync("styles/*.css", { cwd: folder }).toSorted(),
    ...fs.globSync("*/*.css", { cwd: folder, exclude: ["styles"] }).toSorted()
  ]
    .map((name) => fs.readFileSync(new URL(name, folder), "utf8"))
    .join("\n").replace(/\/\*[\s\S]*?\*\//g, "").replace(/\s*\n\s*/g, "\n").trim()

const asset = (contentType: string, text: string): Asset => {
  const bytes = Buffer.from(text)
  return { contentType: `${contentType}; charset=utf-8`, bytes, gzip: gzipSync(bytes, { level: 9 }) }
}

/** The files by name. Those of scripts and styles contain a hash, so that browsers may keep them. The page has what the first view needs. */
export const bundle = Effect.fnUntraced(function*(folder: URL) {
  const all = yield* scripts(folder)
  const [app = "", ...shared] = all.filter(({ isEntry }) => isEntry).flatMap((
    { fileName }
  ) => [...neededBy(fileName, all)])
  const css = styles(folder)
  const cssName = `app-${createHash("sha256").update(css).digest("hex").slice(0, 12)}.css`
  const preloads = shared.map((name) => `<link rel="modulepreload" href="/console/${name}">\n`).join("")
  const page = fs.readFileSync(new URL("index.html", folder), "utf8")
    .replace("app.css", cssName)
    .replace("<script", `${preloads}<script`)
    .replace("app.js", app)
  return new Map([
    ["index.html", asset("text/html", page)],
    [cssName, asset("text/css", css)],
    ...all.map(({ code, fileName }) => [fileName, asset("text/javascript", code)] as const)
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
