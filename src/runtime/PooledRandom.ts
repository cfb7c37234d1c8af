/** Node's secure random bytes, drawn from the system a page at a time: ids are made too often for a call each. */
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { randomFillSync } from "node:crypto"

const pageBytes = 4096

export const layer = Layer.sync(SecureRandom.SecureRandom, () => {
  const page = new Uint8Array(pageBytes)
  let used = pageBytes
  return SecureRandom.make((size) => {
    if (size > pageBytes) return randomFillSync(new Uint8Array(size))
    if (used + size > pageBytes) {
      randomFillSync(page)
      used = 0
    }
    const bytes = page.slice(used, used + size)
    // Bytes once given out must not be found in memory.
    page.fill(0, used, used + size)
    used += size
    return bytes
  })
})
