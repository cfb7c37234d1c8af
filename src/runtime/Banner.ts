/** Prints the URLs, a development token and commands to try when the service starts. */
import { Console, Effect, Redacted } from "effect"
import * as Addresses from "./config/Addresses.ts"
import type { AppConfig } from "./config/AppConfig.ts"
import * as TokenKeys from "./config/TokenKeys.ts"
import * as Proxies from "./node/Proxies.ts"
import { version } from "./Version.ts"

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

const command = import.meta.url.endsWith(".ts") ? "npx node src/runtime/cli/Cli.ts" : "npx async-task-service"

/** Why the start prints no token, and where one comes from. */
const withoutToken = ({ jwtPublicKey, jwtSecret }: AppConfig) => {
  if (jwtSecret !== undefined) return `none, because JWT_SECRET is set; mint one: JWT_SECRET=… ${command} token`
  return `none, because ${jwtPublicKey === undefined ? "JWT_JWKS_URL" : "JWT_PUBLIC_KEY"} is set; its issuer mints them`
}

/** Settings that an external core has to be started with. Only tokens that were generated here are shown. */
const coreLines = ({ coreEventTokens, coreTokens, coreUrl, generates, internalTokens }: AppConfig) => {
  if (coreUrl === undefined) return ""
  const shown = (isGenerated: boolean, tokens: AppConfig["coreTokens"], given = "as set here") =>
    isGenerated && tokens[0] !== undefined ? Redacted.value(tokens[0]) : `… (${given})`
  const ofEvents = coreEventTokens === internalTokens ? "one of INTERNAL_TOKENS here" : undefined
  return `\n  Core      ${Addresses.shown(coreUrl)}, which needs these settings:\n`
    + `            CORE_TOKEN=${shown(generates.coreToken, coreTokens)}\n`
    + `            CORE_EVENT_TOKENS=${shown(generates.eventToken, coreEventTokens, ofEvents)}`
}

/** Logs that the process listens; in development prints how to try it. */
export const print = Effect.fnUntraced(function*(config: AppConfig) {
  const url = config.publicUrl
  yield* Effect.annotateLogs(Effect.logInfo("ready"), {
    address: Addresses.localUrl(config.host, config.port),
    publicUrl: url
  })
  if (config.isProduction) return
  const pages = config.extensions.flatMap(({ links = [] }) => links).map(({ name, path }) =>
    `\n  ${name.padEnd(9)} ${url}${path}`
  ).join("")
  yield* Console.log(
    `\nAsynchronous Task Service\n\n  Base URL  ${url}\n  Start     ${url}/${pages}\n  API docs  ${url}/docs${
      coreLines(config)
    }`
  )
  if (config.developmentSecret === undefined) return yield* Console.log(`  Token     ${withoutToken(config)}\n`)
  const token = yield* TokenKeys.mint(config.developmentSecret, { rules: config.tokenRules })
  yield* Console.log(`  Token     ${token}\n            (development, user "developer", 30 days)\n\nTry it:\n`)
  yield* Console.log(
    `  TOKEN=${token}\n`
      + `  UUID=$(curl -s ${url}/api/tasks -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\\n`
      + `    -d '{"assistant_id": 1, "input": [{"type": "text", "text": "What is 6 * 7?"}]}' | sed 's/.*"uuid":"\\([^"]*\\)".*/\\1/')\n`
      + `  sleep 1; curl -s ${url}/api/tasks/$UUID -H "Authorization: Bearer $TOKEN"\n`
  )
})
