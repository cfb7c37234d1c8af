/**
 * Guards webhooks against server-side request forgery: allows public unicast addresses and those that the operator listed.
 * A host is refused if any of its addresses is refused.
 */
import { isIP } from "node:net"
import { contains, isRange, listOf } from "../node/AddressRanges.ts"

/** The IANA special-purpose registry, multicast, and Azure's metadata address 168.63.129.16. */
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

/** Global unicast. Everything outside, such as mapped, translated and local addresses, is refused. */
const globalV6 = ["2000::/3"]
/** Special-purpose ranges within it: protocol assignments including Teredo, documentation, 6to4, AS112. */
const specialV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]

const loopback = ["127.0.0.0/8", "::1/128"]

const special = listOf([...specialV4, ...specialV6])
const global = listOf(globalV6)

const isPublic = (address: string) => !contains(special, address) && (isIP(address) === 4 || contains(global, address))

/** Lower case, without the trailing dot of the root. */
const canonical = (name: string) => name.toLowerCase().replace(/\.$/, "")

const isName = (entry: string) => /^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$/.test(entry) && !/^[\d.]+$/.test(entry)

export interface AddressGuard {
  /** True if the operator listed this host. Such a host may resolve to any address. */
  readonly isListed: (name: string) => boolean
  readonly allows: (address: string) => boolean
}

/** Parses `WEBHOOK_ALLOW_PRIVATE`: `false`, `true` for loopback, or hosts and CIDRs. Throws on an invalid entry. */
export const parse = (allowPrivate: string): AddressGuard => {
  const entries = allowPrivate.split(",").map((entry) => canonical(entry.trim())).filter((entry) => entry !== "")
  const expanded = entries.flatMap((entry) => entry === "true" ? loopback : entry === "false" ? [] : [entry])
  const invalid = expanded.filter((entry) => !isRange(entry) && !isName(entry))
  if (invalid.length > 0) {
    throw new Error(`must be true, false, or a list of hosts and CIDRs; invalid: ${invalid.join(", ")}`)
  }
  const listed = listOf(expanded.filter(isRange))
  const names = new Set(expanded.filter((entry) => !isRange(entry)))
  return {
    isListed: (name) => names.has(canonical(name)),
    allows: (address) => isPublic(address) || contains(listed, address)
  }
}
