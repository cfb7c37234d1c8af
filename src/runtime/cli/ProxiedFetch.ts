/** Makes `fetch` of this process use the proxies of the environment, as the service does. */
import { getGlobalDispatcher, setGlobalDispatcher } from "@effect/platform-node/Undici"
import { Effect, Record } from "effect"
import * as Setting from "../../services/timing/Setting.ts"
import * as ProxySettings from "../config/ProxySettings.ts"
import * as Outgoing from "../node/Outgoing.ts"
import { Proxies } from "../node/Proxies.ts"
import { failed } from "./Root.ts"

export const makeProxiedFetch = Effect.gen(function*() {
  const problems: Array<string> = []
  const env = ProxySettings.withLowerCase(
    Record.filter(process.env, (value): value is string => value !== undefined && value !== "")
  )
  const values = Setting.values(ProxySettings.settings, env, (name, problem) => problems.push(`${name}: ${problem}`))
  if (problems.length > 0) return yield* failed(problems.join("\n"))
  const proxies = ProxySettings.proxiesOf(values)
  const dispatcher = yield* Effect.provideService(Outgoing.makeDispatcher(), Proxies, proxies)
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      const before = getGlobalDispatcher()
      setGlobalDispatcher(dispatcher)
      return before
    }),
    (before) => Effect.sync(() => setGlobalDispatcher(before))
  )
})
