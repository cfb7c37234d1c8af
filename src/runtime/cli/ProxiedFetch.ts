/** Makes `fetch` of this process use the proxies of the environment, as the service does. */
import { type Dispatcher, getGlobalDispatcher, setGlobalDispatcher } from "@effect/platform-node/Undici"
import { Effect } from "effect"
import * as ProxySettings from "../config/ProxySettings.ts"
import * as Outgoing from "../node/Outgoing.ts"
import { Proxies } from "../node/Proxies.ts"
import { environment, note } from "./Root.ts"

/** A wrong variable is a note: the call may have no need of it. */
const makeDispatcher = Effect.gen(function*() {
  const problems: Array<string> = []
  const { proxies, warnings } = ProxySettings.read(yield* environment, (name, problem) => {
    problems.push(`${name} is ignored: it ${problem}`)
  })
  yield* Effect.forEach([...problems, ...warnings], note, { discard: true })
  return yield* Effect.provideService(Outgoing.makeDispatcher(), Proxies, proxies)
})

/** Nothing is read before the first call, so that a command without one says nothing about proxies. */
export const makeProxiedFetch = Effect.gen(function*() {
  const run = Effect.runSyncWith(yield* Effect.context<Effect.Services<typeof makeDispatcher>>())
  let made: Dispatcher | undefined
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      const before = getGlobalDispatcher()
      setGlobalDispatcher(
        before.compose(() => (request, handler) => (made ??= run(makeDispatcher)).dispatch(request, handler))
      )
      return before
    }),
    (before) => Effect.sync(() => setGlobalDispatcher(before))
  )
})
