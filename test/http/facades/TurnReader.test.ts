import { assert, it } from "vitest"
import { stringOf } from "../../../src/domain/json/RawJson.ts"
import { addressOf, linkedText, none } from "../../../src/http/facades/TurnReader.ts"

it.each([
  ["17/report.pdf", "17/report.pdf"],
  ["17/a b(1).pdf", "17/a%20b%281%29.pdf"],
  ["17/what?#x;y&z.txt", "17/what%3F%23x%3By%26z.txt"],
  ["17/100%.txt", "17/100%25.txt"],
  ["17/a%20b.txt", "17/a%20b.txt"],
  ["17//Größe.txt", "17//Gr%C3%B6%C3%9Fe.txt"],
  ["../../etc/./%2E%2e/.%2e/passwd", "etc/passwd"],
  ["17/..\\..\\x", "17/..%5C..%5Cx"],
  ["17/a\ud800\0\n", "17/a%EF%BF%BD%00%0A"],
  ["...", "..."]
])("the address of the file %s is below the storage's base", (path, expected) => {
  const base = "https://files.test/storage"
  const address = addressOf(base, path)
  assert.strictEqual(address, `${base}/${expected}`)
  assert.strictEqual(new URL(address).href, address)
  const text = linkedText({ ...none, files: [{ name: "a [b]", path }] }, base)
  assert.strictEqual(text && stringOf(text), `[a \\[b\\]](${address})`)
})
