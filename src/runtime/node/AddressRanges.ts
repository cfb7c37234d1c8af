/** Lists of IP addresses and ranges. */
import { BlockList, isIP } from "node:net"

const familyOf = (address: string) => isIP(address) === 6 ? "ipv6" : "ipv4"

/** True if a text is an address or a range as in `10.0.0.0/8`. */
export const isRange = (entry: string) => {
  const [address = "", bits, ...rest] = entry.split("/")
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
}

export const listOf = (ranges: ReadonlyArray<string>): BlockList => {
  const list = new BlockList()
  for (const range of ranges) {
    const [address = "", bits] = range.split("/")
    const family = familyOf(address)
    list.addSubnet(address, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family)
  }
  return list
}

export const contains = (list: BlockList, address: string) =>
  isIP(address) !== 0 && list.check(address, familyOf(address))
