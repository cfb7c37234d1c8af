/** The variables of proxies, which have the names that curl and others use. */
import { Config, Record, Result } from "effect"
import * as Setting from "../../services/settings/Setting.ts"
import { parseExceptions, parseProxy, type Proxies } from "../node/Proxies.ts"

const proxy = Setting.parsed(parseProxy)

const variables = {
  httpsProxy: Setting.optional(proxy, {
    name: "HTTPS_PROXY",
    unset: "`ALL_PROXY`",
    meaning:
      "HTTP proxy for calls to `https:` URLs; the names of these four are also read in lower case, which comes first"
  }),
  httpProxy: Setting.optional(proxy, {
    name: "HTTP_PROXY",
    unset: "`ALL_PROXY`",
    meaning: "HTTP proxy for calls to `http:` URLs"
  }),
  allProxy: Setting.optional(proxy, { name: "ALL_PROXY", unset: "unset", meaning: "HTTP proxy for both" }),
  noProxy: Setting.setting(Setting.parsed(parseExceptions), {
    name: "NO_PROXY",
    default: "",
    isMultiline: true,
    meaning:
      "list of names (with all names below them), addresses and CIDRs, each also with a port, that are called without a proxy, as loopback always is; `*`: all"
  })
}

export const settings = {
  ...variables,
  webhookProxyResolves: Setting.setting(Config.Boolean, {
    name: "WEBHOOK_PROXY_RESOLVES",
    default: "off",
    meaning:
      "`on`: the proxy resolves the names of webhook targets, whose addresses the service then cannot check: whoever sets a callback reaches what the proxy reaches"
  })
}

const names = Object.values(variables).map(({ name }) => name)

/** Variables in lower case take the place of those in upper case. */
const withLowerCase = (env: Setting.Environment): Setting.Environment => {
  const given = names.flatMap((name) => {
    const value = env[name.toLowerCase()]
    return value === undefined ? [] : [[name, value]]
  })
  return { ...env, ...Object.fromEntries(given) }
}

/** The variables, without those that have no effect beside the others: they are not judged. */
export const effective = (environment: Setting.Environment): Setting.Environment => {
  const env = withLowerCase(environment)
  const given = [env["HTTPS_PROXY"], env["HTTP_PROXY"], env["ALL_PROXY"]].map((text) => text !== undefined)
  const unused = new Set([
    ...(given[0] && given[1] ? ["ALL_PROXY"] : []),
    ...(given.includes(true) ? [] : ["NO_PROXY"])
  ])
  return Record.filter(env, (_, name) => !unused.has(name))
}

const proxiesOf = (
  { allProxy, httpProxy, httpsProxy, noProxy }: Setting.Values<typeof variables>
): Proxies => ({ http: httpProxy ?? allProxy, https: httpsProxy ?? allProxy, exceptions: noProxy })

/** The proxies of the effective variables, and what is ignored. Each problem is reported, and there is no proxy in place of a wrong one. */
export const read = (environment: Setting.Environment, report: (name: string, problem: string) => void) => {
  const env = effective(environment)
  const proxies = proxiesOf(Setting.values(variables, env, report))
  const { wrong } = proxies.exceptions
  const isUnusable = env["ALL_PROXY"] === undefined
    && Result.isFailure(variables.allProxy.read(withLowerCase(environment)))
  const warnings = [
    ...(isUnusable ? ["ALL_PROXY is ignored, because HTTPS_PROXY and HTTP_PROXY are set"] : []),
    ...(wrong.length === 0 ? [] : [
      `NO_PROXY must be a list of names, addresses and ranges, as in .internal,10.0.0.0/8; ignored: ${wrong.join(", ")}`
    ])
  ]
  return { proxies, warnings }
}
