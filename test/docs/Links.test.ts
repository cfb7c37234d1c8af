import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"

const root = path.resolve(import.meta.dirname, "../..")

const skipped = new Set(["node_modules", "dist", "dist-client", ".git", ".data"])
const pages = fs.globSync("**/*.md", { cwd: root, exclude: (file) => skipped.has(path.basename(file)) })
  .concat(fs.globSync(".github/*.md", { cwd: root }))

const textOf = (page: string) => fs.readFileSync(path.join(root, page), "utf8").replaceAll(/^```[\s\S]*?^```/gm, "")

/** Ids of a page's headings, by GitHub's rule: a repeated one gets a number. */
const anchorsOf = (page: string): ReadonlySet<string> => {
  const seen = new Map<string, number>()
  return new Set([...textOf(page).matchAll(/^#{1,6} +(.+?)\s*$/gm)].map(([, heading = ""]) => {
    const words = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase()
    const slug = words.replaceAll(/[^\p{L}\p{N}\p{M}_\- ]/gu, "").replaceAll(" ", "-")
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    return count === 0 ? slug : `${slug}-${count}`
  }))
}

const linksOf = (page: string): ReadonlyArray<string> =>
  [...textOf(page).replaceAll(/`[^`\n]*`/g, "x").matchAll(/\]\(([^)\s]+)\)|^\[[^\]]+\]: +(\S+)/gm)]
    .map(([, inline, reference]) => inline ?? reference ?? "")
    .filter((link) => !/^[a-z][a-z\d+.-]*:/i.test(link))

const problemOf = (page: string, link: string): string | undefined => {
  const [file = "", anchor] = link.split("#", 2)
  const target = file === "" ? page : path.join(path.dirname(page), decodeURIComponent(file))
  if (!fs.existsSync(path.join(root, target))) return `${link}: there is no ${target}`
  if (anchor === undefined) return undefined
  return target.endsWith(".md") && anchorsOf(target).has(anchor) ? undefined : `${link}: ${target} has no such heading`
}

/** Files with comments that name others. */
const commented = fs.globSync("**/*.{yaml,yml,service,dockerignore}", {
  cwd: root,
  exclude: (file) => skipped.has(path.basename(file))
}).concat("src/runtime/deployment/Containerfile", "src/runtime/deployment/Caddyfile")

/** The files and headings of pages that comments name. */
const namedIn = (file: string) =>
  fs.readFileSync(path.join(root, file), "utf8").split("\n").filter((line) => /^\s*#/.test(line)).flatMap((line) =>
    [...line.matchAll(/(?<![\w/.@-])(?!dist\/)[\w./@-]*\w\.(?:md|yaml|ts|js|json)\b(#[\w-]+)?/g)].map(([name]) => name)
  )

const leadsNowhere = (file: string, name: string) =>
  [name, path.relative(path.dirname(file), name)].every((link) => problemOf(file, link) !== undefined)

it("comments in files of deployment name files that exist", () => {
  assert.includeMembers(commented, ["src/runtime/deployment/prometheus/alerts.yaml"])
  assert.isAbove(commented.flatMap(namedIn).length, 5)
  assert.deepStrictEqual(
    commented.flatMap((file) =>
      namedIn(file).filter((name) => leadsNowhere(file, name)).map((name) => `${file}: ${name}`)
    ),
    []
  )
})

describe("the pages", () => {
  it("are found", () => {
    assert.includeMembers(pages, ["README.md", "src/http/README.md", ".github/CONTRIBUTING.md"])
  })

  for (const page of new Set(pages)) {
    it(`have links and anchors in ${page} that lead somewhere`, () => {
      assert.deepStrictEqual(linksOf(page).flatMap((link) => problemOf(page, link) ?? []), [])
    })
  }
})
