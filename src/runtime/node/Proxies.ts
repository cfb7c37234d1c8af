/** The proxies of the way out. Only the host in a URL decides which calls use them. */
import { Context, Redacted } from "effect"
import { isIP } from "node:net"
import { unescape } from "node:querystring"
import { encodingHint } from "../../services/settings/Setting.ts"
import * as AddressRanges from "./AddressRanges.ts"

export interface Proxy {
  /** The origin, without credentials. */
  readonly url: string
  readonly authorization: Redacted.Redacted | undefined
}

/** A call, as a URL has it. */
export interface Target {
  readonly protocol: string
  /** An IPv6 address has no brackets. */
  readonly hostname: string
  readonly port: number
}

type Matches = (target: Target) => boolean

export interface Exceptions {
  readonly matches: Matches
  /** Entries that cannot be read, without credentials. */
  readonly wrong: ReadonlyArray<string>
}

export interface Proxies {
  /** For `http:` URLs. */
  readonly http: Proxy | undefined
  /** For `https:` URLs. */
  readonly https: Proxy | undefined
  /** Calls without a proxy. */
  readonly exceptions: Exceptions
}

export const Proxies = Context.Reference<Proxies>("async-task-service/runtime/node/Proxies", {
  defaultValue: () => none
})

export const none: Proxies = { http: undefined, https: undefined, exceptions: { matches: () => true, wrong: [] } }

const example = "must be the URL of an HTTP proxy, as in http://user:password@proxy.example:3128"

/** Parses the URL of a proxy, which may lack `http://`. Throws without the text, which may have a password. */
export const parseProxy = (text: string): Proxy => {
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`)
  if (url !== null && url.protocol.startsWith("socks")) throw new Error(`${example}; SOCKS is not supported`)
  if (url === null || !/^https?:$/.test(url.protocol) || url.pathname !== "/" || url.search !== "" || url.hash !== "") {
    throw new Error(`${example}${encodingHint(text)}`)
  }
  const credentials = `${unescape(url.username)}:${unescape(url.password)}`
  return {
    url: url.origin,
    authorization: credentials === ":"
      ? undefined
      : Redacted.make(`Basic ${Buffer.from(credentials).toString("base64")}`)
  }
}

const loopback = AddressRanges.listOf(["127.0.0.0/8", "::1/128", "0.0.0.0/32", "::/128"])

const isLoopback: Matches = ({ hostname }) =>
  isIP(hostname) === 0 ? /^(.+\.)?localhost$/.test(hostname) : AddressRanges.contains(loopback, hostname)

/** An entry of NO_PROXY: a name with all names below it, `*.name` without the name itself, an address, or a range. Undefined if wrong. */
const matcherOf = (entry: string): Matches | undefined => {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(entry) ?? []
  const host = bracketed ?? plain ?? entry
  const isPort: Matches = (target) => port === undefined || target.port === Number(port)
  if (host === "*") return isPort
  if (AddressRanges.isRange(host)) {
    const list = AddressRanges.listOf([host])
    return (target) => isPort(target) && AddressRanges.contains(list, target.hostname)
  }
  if (!/^\*?\.?[\w-][\w.-]*$/.test(host)) return undefined
  const suffix = host.replace(/^\*?\.?/, ".").replace(/\.$/, "")
  const isNamed = (name: string) => name.endsWith(suffix) || (!host.startsWith("*") && `.${name}` === suffix)
  return (target) => isPort(target) && isIP(target.hostname) === 0 && isNamed(target.hostname)
}

/** Parses NO_PROXY: a list by commas or blanks. Wrong entries except nothing. */
export const parseExceptions = (text: string): Exceptions => {
  const entries = text.toLowerCase().split(/[\s,]+/).filter((entry) => entry !== "")
  const found = entries.map((entry) => ({ entry, matches: matcherOf(entry) }))
  return {
    matches: (target) => found.some(({ matches }) => matches?.(target)),
    wrong: found.flatMap(({ entry, matches }) => matches === undefined ? [entry.replace(/^.*@/, "***@")] : [])
  }
}

/** The proxy of a call; undefined for a direct one. Loopback is always direct. */
export const find = (proxies: Proxies, target: Target): Proxy | undefined => {
  const proxy = target.protocol === "https:" ? proxies.https : proxies.http
  if (proxy === undefined) return undefined
  const named = { ...target, hostname: target.hostname.toLowerCase().replace(/\.$/, "") }
  return isLoopback(named) || proxies.exceptions.matches(named) ? undefined : proxy
}

/** All proxies without credentials, for the operator. */
export const describe = ({ http, https }: Proxies): string =>
  [...new Set([https, http].flatMap((proxy) => proxy === undefined ? [] : [proxy.url]))].join(", ")

export const targetOf = ({ hostname, port, protocol }: Pick<URL, "hostname" | "port" | "protocol">): Target => ({
  protocol,
  hostname: hostname.replace(/^\[(.*)\]$/, "$1"),
  port: Number(port) || (protocol === "https:" ? 443 : 80)
})
