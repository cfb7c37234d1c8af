/** The variables of proxies, as curl and others read them. */
import { Config } from "effect"
import * as Setting from "../../services/timing/Setting.ts"
import { parseExceptions, parseProxy, type Proxies } from "../node/Proxies.ts"

const proxy = Setting.parsed(parseProxy)

export const settings = {
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
    meaning:
      "list of names (with all names below them), addresses and CIDRs, each also with a port, that are called without a proxy, as loopback always is; `*`: all"
  }),
  webhookProxyResolves: Setting.setting(Config.Boolean, {
    name: "WEBHOOK_PROXY_RESOLVES",
    default: "off",
    meaning:
      "`on`: the proxy resolves the names of webhook targets, whose addresses the service then cannot check: whoever sets a callback reaches what the proxy reaches"
  })
}

const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]

/** Variables in lower case take the place of those in upper case. */
export const withLowerCase = (env: Setting.Environment): Setting.Environment => {
  const given = names.flatMap((name) => {
    const value = env[name.toLowerCase()]
    return value === undefined ? [] : [[name, value]]
  })
  return { ...env, ...Object.fromEntries(given) }
}

export const proxiesOf = (
  { allProxy, httpProxy, httpsProxy, noProxy }: Setting.Values<typeof settings>
): Proxies => ({ http: httpProxy ?? allProxy, https: httpsProxy ?? allProxy, exceptions: noProxy })
