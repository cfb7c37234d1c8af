/** Draws a PNG that depends only on a text. */
import { createHash } from "node:crypto"
import { crc32, deflateSync } from "node:zlib"

const side = 256

const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

const chunk = (type: string, data: Uint8Array): Buffer => {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data])
  return Buffer.concat([uint32(data.length), body, uint32(crc32(body))])
}

/** Colored rings around three centers, derived from the digest of the text. */
export const draw = (text: string): Uint8Array => {
  const seed = createHash("sha256").update(text).digest()
  const brightness = (x: number, y: number, color: number) => {
    const distance = Math.hypot(x - seed[color * 2]!, y - seed[color * 2 + 1]!)
    return 128 + 127 * Math.sin(distance / (6 + seed[color + 6]! / 16))
  }
  const rows: Array<number> = []
  for (let y = 0; y < side; y++) {
    rows.push(0)
    for (let x = 0; x < side; x++) rows.push(brightness(x, y, 0), brightness(x, y, 1), brightness(x, y, 2))
  }
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", Buffer.concat([uint32(side), uint32(side), Buffer.from([8, 2, 0, 0, 0])])),
    chunk("IDAT", deflateSync(Buffer.from(rows))),
    chunk("IEND", Buffer.alloc(0))
  ])
}
