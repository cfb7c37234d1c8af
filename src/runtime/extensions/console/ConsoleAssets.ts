/** The console's files: those of the package, or in a checkout a bundle that is made in memory when it is first needed. */
import { Effect, Option, Schema, Semaphore } from "effect"
import * as fs from "node:fs"
import type { Asset } from "./ConsoleBundle.ts"

/** The build has this module in `dist/bin`. */
const builtFolder = new URL("../http/console/", import.meta.url)
const sourceFolder = new URL("../../../http/console/", import.meta.url)

/** There are no built files, and no bundler to build them. */
export class ConsoleNotBuilt extends Schema.TaggedError<ConsoleNotBuilt>()("ConsoleNotBuilt", {}) {}

/** Finds a file by its name: `index.html`, or a name that contains a hash of the content. */
type FindAsset = (name: string) => Effect.Effect<Option.Option<Asset>, ConsoleNotBuilt>

type Files = ReadonlyMap<string, Asset>

const Manifest = Schema.fromJsonString(Schema.Record(Schema.String, Schema.String))

/** Reads the files that `npm run build` wrote. The manifest maps their names to their types. */
const readBuilt = (folder: URL) =>
  Effect.try(() => fs.readFileSync(new URL("manifest.json", folder), "utf8")).pipe(
    Effect.flatMap(Schema.decodeEffect(Manifest)),
    Effect.map((manifest): Files =>
      new Map(
        Object.entries(manifest).map(([name, contentType]) => [name, {
          contentType,
          bytes: fs.readFileSync(new URL(name, folder)),
          gzip: fs.readFileSync(new URL(`${name}.gz`, folder))
        }])
      )
    ),
    Effect.mapError(() => new ConsoleNotBuilt())
  )

/** Milliseconds since the epoch at which a source file was changed last. */
const changedAt = (folder: URL) =>
  Math.max(
    ...fs.readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) =>
      fs.statSync(new URL(name, folder)).mtimeMs
    )
  )

/** Bundles the sources. A package has no bundler. */
const bundle = Effect.tryPromise(() => import("./ConsoleBundle.ts")).pipe(
  Effect.flatMap(({ bundle }) => bundle(sourceFolder)),
  Effect.tapCause((cause) => Effect.logWarning("the console cannot be bundled", cause)),
  Effect.mapError(() => new ConsoleNotBuilt())
)

/** Builds once for concurrent requests, and again when `versionOf` has changed. */
export const cached = <E>(build: Effect.Effect<Files, E>, versionOf: () => number) =>
  Effect.map(Semaphore.make(1), (semaphore) => {
    let built: { readonly version: number; readonly files: Files } | undefined
    const files = Effect.suspend(() => {
      const version = versionOf()
      if (built?.version === version) return Effect.succeed(built.files)
      return Effect.tap(build, (files) => Effect.sync(() => built = { version, files }))
    })
    return semaphore.withPermits(1)(files)
  })

const find = (files: Effect.Effect<Files, ConsoleNotBuilt>): FindAsset => (name) =>
  Effect.map(files, (found) => Option.fromUndefinedOr(found.get(name)))

export const built = (folder: URL) => Effect.map(cached(readBuilt(folder), () => 0), find)

const ofCheckout = Effect.map(cached(bundle, () => changedAt(sourceFolder)), find)

export const current = import.meta.url.endsWith(".ts") ? ofCheckout : built(builtFolder)
