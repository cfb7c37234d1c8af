/** Addresses of the service as others see them. */
import { isLoopback } from "../../http/DevelopmentToken.ts"

export { isLoopback }

const bracketed = (host: string) => host.includes(":") ? `[${host.replaceAll(/^\[|\]$/g, "")}]` : host

/** True if a host stands for all addresses of a machine, so that no other machine can use it. */
export const isWildcard = (host: string): boolean =>
  ["0.0.0.0", "[::]", "[::ffff:0:0]"].includes(URL.parse(`http://${bracketed(host)}`)?.hostname ?? "")

/** True if a name is one of a container or of a local network. */
export const isShortName = (host: string): boolean => !/[.:]/.test(host) && !isLoopback(host)

/** A URL for people: its origin and path. What is before and after them may be secret. */
export const shown = (url: string): string => {
  const found = URL.parse(url)
  return found === null ? url : found.origin + found.pathname.replace(/\/+$/, "")
}

/** The URL of a port of this machine, as processes on it reach the port. */
export const localUrl = (host: string, port: number): string => {
  const reachable = !isWildcard(host) ? bracketed(host) : host.includes(":") ? "[::1]" : "127.0.0.1"
  return `http://${reachable}:${port}`
}
