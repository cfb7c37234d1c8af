/**
 * Which addresses webhooks may go to: public unicast ones, by an allow-list, and what the operator listed. A name stands
 * for all of its addresses: if one of them is not public, none is used.
 */
import { BlockList, isIP } from "node:net"

/** RELIABILITY "Webhooks": IANA's special registry, multicast, and the metadata address of one cloud. */
const specialV4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "168.63.129.16/32",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4"
]

/** All that may be public; so mapped, translated and local addresses are out without being named. */
const globalV6 = ["2000::/3"]
/** IANA's special ranges within: protocol assignments with Teredo, documentation, 6to4, AS112. */
const specialV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]

const loopback = ["127.0.0.0/8", "::1/128"]

const familyOf = (address: string) => isIP(address) === 6 ? "ipv6" : "ipv4"

const listOf = (ranges: ReadonlyArray<string>): BlockList => {
  const list = new BlockList()
  for (const range of ranges) {
    const [address = "", bits] = range.split("/")
    const family = familyOf(address)
    list.addSubnet(address, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family)
  }
  return list
}

const special = listOf([...specialV4, ...specialV6])
const global = listOf(globalV6)

const isPublic = (address: string) =>
  isIP(address) === 4
    ? !special.check(address, "ipv4")
    : isIP(address) === 6 && global.check(address, "ipv6") && !special.check(address, "ipv6")

/** As names are compared: in lower case, without the dot of the root. */
const canonical = (name: string) => name.toLowerCase().replace(/\.$/, "")

const isRange = (entry: string) => {
  const [address = "", bits, ...rest] = entry.split("/")
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
}

const isName = (entry: string) => /^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$/.test(entry) && !/^[\d.]+$/.test(entry)

export interface AddressGuard {
  /** The operator named this very host: wherever it leads, webhooks may go. */
  readonly isListed: (name: string) => boolean
  readonly allows: (address: string) => boolean
}

/** From `WEBHOOK_ALLOW_PRIVATE`: `false`, `true` for loopback, or hosts and CIDRs. Throws at what is neither. */
export const parse = (allowPrivate: string): AddressGuard => {
  const entries = allowPrivate.split(",").map((entry) => canonical(entry.trim())).filter((entry) => entry !== "")
  const meant = entries.flatMap((entry) => entry === "true" ? loopback : entry === "false" ? [] : [entry])
  const wrong = meant.filter((entry) => !isRange(entry) && !isName(entry))
  if (wrong.length > 0) throw new Error(`must be true, false, or a list of hosts and CIDRs, unlike ${wrong.join(", ")}`)
  const listed = listOf(meant.filter(isRange))
  const names = new Set(meant.filter((entry) => !isRange(entry)))
  return {
    isListed: (name) => names.has(canonical(name)),
    allows: (address) => isPublic(address) || (isIP(address) !== 0 && listed.check(address, familyOf(address)))
  }
}
