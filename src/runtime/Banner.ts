/** Prints the URLs, a development token and commands to try when the service starts. */
import { Console, Effect } from "effect"
import type { AppConfig } from "./config/AppConfig.ts"
import * as TokenKeys from "./config/TokenKeys.ts"
import * as Proxies from "./node/Proxies.ts"
import { version } from "./Version.ts"

export const localUrl = ({ host, port }: AppConfig): string => {
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "[::1]" : host.includes(":") ? `[${host}]` : host
  return `http://${reachable}:${port}`
}

export const logLifetime = <A, E, R>(
  process: Effect.Effect<A, E, R>,
  { cluster, isProduction, proxies }: AppConfig
) => {
  const proxy = Proxies.describe(proxies)
  return Effect.logInfo("starting").pipe(
    Effect.annotateLogs({
      version,
      mode: isProduction ? "production" : "development",
      cluster: cluster !== undefined,
      ...(proxy === "" ? {} : { proxy })
    }),
    Effect.andThen(process),
    Effect.onInterrupt(() => Effect.logInfo("stopped"))
  )
}

/** Logs that the process listens; in development prints how to try it. */
export const print = Effect.fnUntraced(function*(config: AppConfig) {
  const url = config.publicUrl
  yield* Effect.annotateLogs(Effect.logInfo("ready"), { address: localUrl(config), publicUrl: url })
  if (config.isProduction) return
  const pages = config.extensions.flatMap(({ links = [] }) => links).map(({ name, path }) =>
    `\n  ${name.padEnd(9)} ${url}${path}`
  ).join("")
  yield* Console.log(
    `\nAsynchronous Task Service\n\n  Base URL  ${url}\n  Start     ${url}/${pages}\n  API docs  ${url}/docs`
  )
  if (config.developmentSecret === undefined) return
  const token = yield* TokenKeys.mint(config.developmentSecret)
  yield* Console.log(`  Token     ${token}\n            (development, user "developer", 30 days)\n\nTry it:\n`)
  yield* Console.log(
    `  TOKEN=${token}\n`
      + `  UUID=$(curl -s ${url}/api/tasks -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\\n`
      + `    -d '{"assistant_id": 1, "input": [{"type": "text", "text": "What is 6 * 7?"}]}' | sed 's/.*"uuid":"\\([^"]*\\)".*/\\1/')\n`
      + `  sleep 1; curl -s ${url}/api/tasks/$UUID -H "Authorization: Bearer $TOKEN"\n`
  )
})
