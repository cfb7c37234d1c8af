import * as fs from "node:fs"
import { assert, it } from "vitest"

const linesOf = (text: string) => text.split("\n")

/** Compares texts with the golden files of their names. A difference is shown from its first line. */
export const compare = (
  subject: string,
  make: () => Promise<Readonly<Record<string, string>>> | Readonly<Record<string, string>>
) =>
  it(`${subject} are those of test/golden/files (npm run docs writes them)`, async () => {
    const made = await make()
    for (const [name, text] of Object.entries(made)) {
      const golden = fs.readFileSync(new URL(`files/${name}`, import.meta.url), "utf8")
      if (text === golden) continue
      const [now, before] = [linesOf(text), linesOf(golden)]
      const first = now.findIndex((line, index) => line !== before[index])
      const from = first < 0 ? now.length : first
      const excerpt = (lines: ReadonlyArray<string>) => lines.slice(from, from + 20).join("\n")
      assert.strictEqual(
        excerpt(now),
        excerpt(before),
        `${name} has changed from line ${from + 1} on. If that is on purpose: npm run docs, and read the diff.`
      )
      assert.fail(`${name} has changed after line ${from}. If that is on purpose: npm run docs, and read the diff.`)
    }
  })
