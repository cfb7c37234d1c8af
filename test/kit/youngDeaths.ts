/**
 * Loaded before the service (`node --import`): writes to file descriptor 3, for each request with a body that began three collections of
 * the young generation ago, whether its object is still alive: 1 or 0. A collection of the old generation frees all that is dead.
 */
import { subscribe } from "node:diagnostics_channel"
import { writeSync } from "node:fs"
import type { IncomingMessage } from "node:http"
import { constants, PerformanceObserver } from "node:perf_hooks"

const collections = 3

let scavenges = 0
let requests: Array<{ readonly request: WeakRef<IncomingMessage>; readonly begunAt: number }> = []

new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const { kind } = Reflect.get(entry, "detail") as { readonly kind: number }
    if (kind === constants.NODE_PERFORMANCE_GC_MAJOR) requests = []
    if (kind === constants.NODE_PERFORMANCE_GC_MINOR) scavenges++
  }
}).observe({ entryTypes: ["gc"] })

subscribe("http.server.request.start", (message) => {
  const { request } = message as { readonly request: IncomingMessage }
  if (request.method === "POST") requests.push({ request: new WeakRef(request), begunAt: scavenges })
})

setInterval(() => {
  const isOld = ({ begunAt }: { readonly begunAt: number }) => scavenges - begunAt >= collections
  const fates = requests.filter(isOld).map(({ request }) => request.deref() === undefined ? "0" : "1")
  requests = requests.filter((request) => !isOld(request))
  if (fates.length > 0) writeSync(3, fates.join(""))
}, 20).unref()
