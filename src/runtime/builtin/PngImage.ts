/** Draws a picture that depends on nothing but a text, as a PNG. */
import { createHash } from "node:crypto"
import { crc32, deflateSync } from "node:zlib"

const side = 256

const chunk = (type: string, data: Uint8Array): Buffer => {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data])
  const bytes = Buffer.alloc(body.length + 8)
  bytes.writeUInt32BE(data.length)
  body.copy(bytes, 4)
  bytes.writeUInt32BE(crc32(body), body.length + 4)
  return bytes
}

/** Rings around three centres, in colours, all taken from the text's digest. */
export const draw = (text: string): Uint8Array => {
  const seed = createHash("sha256").update(text).digest()
  const rows = Buffer.alloc(side * (1 + side * 3))
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      for (let colour = 0; colour < 3; colour++) {
        const distance = Math.hypot(x - seed[colour * 2]!, y - seed[colour * 2 + 1]!)
        const wave = Math.sin(distance / (6 + seed[colour + 6]! / 16))
        rows[y * (1 + side * 3) + 1 + x * 3 + colour] = 128 + 127 * wave
      }
    }
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(side, 0)
  header.writeUInt32BE(side, 4)
  header.set([8, 2], 8)
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([
    signature,
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0))
  ])
}
