/** Cryptographically secure random bytes, fetched one page at a time: a system call for each id is too slow. */
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
    // Erase the returned bytes, so that a memory dump does not reveal them.
    page.fill(0, used, used + size)
    used += size
    return bytes
  })
})
