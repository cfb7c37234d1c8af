/** The Containerfile's instructions, and the files in its build context. */
import * as fs from "node:fs"

const deployment = new URL("../../src/runtime/deployment/", import.meta.url)

export const containerfile = fs.readFileSync(new URL("Containerfile", deployment), "utf8")

const linesOf = (text: string) => text.split("\n").map((line) => line.trim()).filter((line) => /^[^#]/.test(line))

export const instructionsOf = () =>
  linesOf(containerfile.replaceAll(/\\\n\s*/g, " ")).map((line) => {
    const [keyword = ""] = line.split(" ", 1)
    return { keyword, text: line.slice(keyword.length).trim() }
  })

const patterns = linesOf(fs.readFileSync(new URL("Containerfile.dockerignore", deployment), "utf8"))

/** Container engines apply the last pattern that matches a path or a folder above it. */
export const isInContext = (name: string) => {
  const last = patterns.findLast((pattern) => {
    const bare = pattern.replace(/^!/, "")
    return bare === "*" || name === bare || name.startsWith(`${bare}/`)
  })
  return last === undefined || last.startsWith("!")
}
