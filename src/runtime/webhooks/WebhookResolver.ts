/**
 * Resolves the host of a webhook URL once and checks all of its addresses. Names are resolved by DNS queries rather than by
 * `getaddrinfo`, because slow names would fill its thread pool. Only hosts that the operator listed use the system's resolver.
 */
import { Effect } from "effect"
import { promises as dns } from "node:dns"
import { isIP } from "node:net"
import { DeliveryError } from "../../services/webhooks/WebhookSender.ts"
import type { AddressGuard } from "./AddressGuard.ts"

export interface Resolver {
  /** The addresses to connect to, or the name itself if a proxy is used and may resolve it. */
  readonly resolve: (hostname: string, isProxied?: boolean) => Effect.Effect<ReadonlyArray<string>, DeliveryError>
}

const refused = new DeliveryError({ error: "address_refused" })
const notResolved = new DeliveryError({ error: "name_not_resolved" })

/** RFC 6761: these names are loopback, whatever DNS returns. */
const isLocalhost = (name: string) => /^(.+\.)?localhost\.?$/.test(name)

/**
 * `servers` are DNS servers as `address:port`; default: those of the system. With `proxyResolves` a proxy resolves names, to addresses
 * that nobody checks.
 */
export const make = (guard: AddressGuard, servers?: ReadonlyArray<string>, proxyResolves = false): Resolver => {
  const resolver = new dns.Resolver({ timeout: 2000, tries: 2 })
  if (servers !== undefined) resolver.setServers(servers)

  const query = (send: () => Promise<Array<string>>) =>
    Effect.tryPromise({ try: send, catch: () => notResolved }).pipe(Effect.orElseSucceed((): Array<string> => []))

  const lookUp = (name: string): Effect.Effect<ReadonlyArray<string>, DeliveryError> => {
    if (isIP(name) !== 0) return Effect.succeed([name])
    if (isLocalhost(name)) return Effect.succeed(["127.0.0.1", "::1"])
    if (guard.isListed(name)) {
      return Effect.tryPromise({
        try: () => dns.lookup(name, { all: true }),
        catch: () => notResolved
      }).pipe(Effect.map((found) => found.map(({ address }) => address)))
    }
    return Effect.map(
      Effect.all([query(() => resolver.resolve4(name)), query(() => resolver.resolve6(name))], {
        concurrency: "unbounded"
      }),
      (found) => found.flat()
    )
  }

  return {
    resolve: (hostname, isProxied = false) => {
      const name = hostname.replace(/^\[(.*)\]$/, "$1")
      if (isProxied && proxyResolves && isIP(name) === 0 && !isLocalhost(name)) return Effect.succeed([name])
      return Effect.flatMap(lookUp(name), (addresses) => {
        if (addresses.length === 0) return Effect.fail(notResolved)
        if (!guard.isListed(name) && !addresses.every(guard.allows)) return Effect.fail(refused)
        return Effect.succeed(addresses)
      })
    }
  }
}
