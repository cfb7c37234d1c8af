/** Parses database URLs as libpq does. A parameter that the service would not follow is refused, never ignored. */
import type { PgConnection } from "@effect/sql-pg"
import { Duration, Redacted } from "effect"
import * as fs from "node:fs"
import { connect, type Socket } from "node:net"
import * as tls from "node:tls"
import { encodingHint } from "../../services/timing/Setting.ts"
import { openSocket } from "../node/Dialer.ts"

export interface Host {
  /** A name, an address, or the directory of a Unix socket, which begins with "/". */
  readonly host: string
  readonly port: number
}

export type Hosts = readonly [Host, ...Array<Host>]

export interface DatabaseUrl {
  /** In the order in which they are tried. The service uses the first one that accepts writes. */
  readonly hosts: Hosts
  /** Undefined without TLS. */
  readonly tls: tls.ConnectionOptions | undefined
  /** Undefined without one, which means `prefer`. */
  readonly sslmode: string | undefined
  readonly options: PgConnection.Config
}

const defaultPort = 5432
const defaultConnectTimeout = 10

/** Parameters that only tune a connection, and values of others that mean what the service does anyway. */
const harmless = new RegExp(
  "^(keepalives(_.*)?|tcp_user_timeout|fallback_application_name|(gssencmode|channel_binding)=(disable|prefer)"
    + "|sslnegotiation=postgres|client_encoding=utf-?8|target_session_attrs=(any|read-write|primary))$",
  "i"
)

const refuse = (problem: string): never => {
  throw new Error(problem)
}

const decode = (text: string, what: string) => {
  try {
    return decodeURIComponent(text)
  } catch {
    return refuse(`the percent-encoding of ${what} is invalid`)
  }
}

const isSocket = ({ host }: Host) => host.startsWith("/")

const portOf = (text: string | undefined): number => {
  const port = Number(text || defaultPort)
  return Number.isInteger(port) && port > 0 && port < 65_536 ? port : refuse("port must be between 1 and 65535")
}

const hostOf = (text: string): Host => {
  const [, bracketed, plain = "", port] = /^(?:\[([^\]]*)\]|([^:]*))(?::([^:]*))?$/.exec(text) ??
    refuse("a host has more than one port; an IPv6 address needs brackets")
  return { host: bracketed ?? (decode(plain, "host") || "localhost"), port: portOf(port) }
}

const hostsOf = (authority: string, hosts: string | undefined, ports: string | undefined): Hosts => {
  const own = authority.split(",").map(hostOf)
  const named = hosts?.split(",").map((host) => ({ host: host || "localhost", port: own[0]?.port ?? defaultPort })) ??
    own
  const given = ports?.split(",") ?? []
  if (given.length > 1 && given.length !== named.length) refuse("port must have one value, or one for each host")
  const [first, ...rest] = named.map(({ host, port }, index) => ({
    host,
    port: given.length === 0 ? port : portOf(given[index] ?? given[0])
  }))
  if (first === undefined) return refuse("host is missing")
  // One connection's options serve all hosts, and a Unix socket has no TLS.
  if (rest.some((other) => isSocket(other) !== isSocket(first))) refuse("hosts must not mix Unix sockets and networks")
  return [first, ...rest]
}

const readCertificates = (file: string): ReadonlyArray<string> => {
  if (file === "system") return tls.getCACertificates("system")
  try {
    return [fs.readFileSync(file, "utf8")]
  } catch {
    return refuse(`sslrootcert: ${file} cannot be read`)
  }
}

/** The certificate may name any of the hosts, because a connection to another one is not distinguished. */
const identityOf = (hosts: Hosts) => (_: string, certificate: tls.PeerCertificate) => {
  const errors = hosts.map(({ host }) => tls.checkServerIdentity(host, certificate))
  return errors.includes(undefined) ? undefined : errors[0]
}

const unverified = { rejectUnauthorized: false }

const tlsOf = (mode: string, rootCertificate: string | undefined, hosts: Hosts): DatabaseUrl["tls"] => {
  if (mode === "disable" || isSocket(hosts[0])) return undefined
  if (rootCertificate === "system" && mode !== "verify-full") refuse("sslrootcert=system requires sslmode=verify-full")
  const ca = rootCertificate === undefined ? undefined : { ca: [...readCertificates(rootCertificate)] }
  switch (mode) {
    case "allow":
    case "prefer":
      return unverified
    case "require":
      return ca === undefined ? unverified : { ...ca, checkServerIdentity: () => undefined }
    case "verify-ca":
      return ca === undefined
        ? refuse("sslmode=verify-ca requires sslrootcert")
        : { ...ca, checkServerIdentity: () => undefined }
    case "verify-full":
      return { ...ca, checkServerIdentity: identityOf(hosts) }
    default:
      return refuse(`sslmode=${mode} is not supported`)
  }
}

const timeoutOf = (text: string | undefined) => {
  const seconds = Number(text ?? defaultConnectTimeout)
  if (!Number.isInteger(seconds) || seconds < 0) refuse("connect_timeout must be a number of seconds")
  return Duration.seconds(seconds || defaultConnectTimeout)
}

const parseText = (text: string): DatabaseUrl => {
  const [, authority = "", path = "", query = ""] =
    /^postgres(?:ql)?:\/\/([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/i.exec(text) ??
      refuse("must be a URL as in postgres://user:password@host:5432/database")
  const at = authority.lastIndexOf("@")
  if (at < 0 && path.includes("@")) refuse("the name of the database contains @")
  const [, user = "", secret] = /^([^:]*)(?::(.*))?$/s.exec(authority.slice(0, Math.max(at, 0))) ?? []
  const parameters = new Map(new URLSearchParams(query))
  const take = (name: string) => {
    const value = parameters.get(name)
    parameters.delete(name)
    return value === "" ? undefined : value
  }
  const hosts = hostsOf(authority.slice(at + 1), take("host"), take("port"))
  const sslmode = take("sslmode") ?? (take("ssl") === "true" ? "require" : undefined)
  const password = take("password") ?? (secret === undefined ? undefined : decode(secret, "password"))
  const parsed: DatabaseUrl = {
    hosts,
    tls: tlsOf(sslmode ?? "prefer", take("sslrootcert"), hosts),
    sslmode,
    options: {
      username: take("user") ?? (decode(user, "user") || undefined),
      password: password === undefined ? undefined : Redacted.make(password),
      database: take("dbname") ?? (decode(path, "database") || undefined),
      applicationName: take("application_name") ?? "async-task-service",
      startupOptions: take("options"),
      connectTimeout: timeoutOf(take("connect_timeout"))
    }
  }
  for (const [name, value] of parameters) {
    if (!harmless.test(name) && !harmless.test(`${name}=${value}`)) {
      // The value of a parameter that libpq does not know may be a secret.
      refuse(name === "target_session_attrs" ? `${name}=${value}: the service writes` : `${name} is not supported`)
    }
  }
  return parsed
}

/** Throws an error that names the wrong parameter. No message contains the URL, which may have a password. */
export const parse = (url: Redacted.Redacted): DatabaseUrl => {
  const text = Redacted.value(url)
  try {
    return parseText(text)
  } catch (error) {
    return refuse(`${error instanceof Error ? error.message : error}${encodingHint(text)}`)
  }
}

/** Whether a server without TLS is accepted. */
export const isTlsOptional = ({ sslmode = "prefer" }: DatabaseUrl) => sslmode === "prefer" || sslmode === "allow"

/** Options of a connection to one of the hosts. */
export const optionsFor = (url: DatabaseUrl, host: Host, isEncrypted: boolean): PgConnection.Config => ({
  ...url.options,
  ...host,
  stream: () => open(host),
  ssl: (isEncrypted && url.tls) ?? false
})

const isLocal = ({ host }: Host) => /^(\/.*|localhost|127\..*|::1)$/.test(host)

/**
 * Why others on the network may read or change a connection with these options; undefined when they may not. Only
 * `sslmode=disable` says that the network is trusted. Development mode accepts a URL without `sslmode`.
 */
export const tlsProblemOf = (
  { hosts, sslmode }: DatabaseUrl,
  { ssl }: PgConnection.Config,
  isProduction: boolean
): string | undefined => {
  const isAccepted = sslmode === "disable" || (sslmode === undefined && !isProduction) || hosts.every(isLocal)
  if (isAccepted || (typeof ssl === "object" && ssl.rejectUnauthorized !== false)) return undefined
  const found = ssl === false ? "the connection is not encrypted" : "the certificate of the server is not verified"
  return `${found}: set sslmode=verify-full and sslrootcert`
}

/** Connects to a host, at whatever distance its addresses are. */
export const open = (to: Host): Socket =>
  isSocket(to) ? connect({ path: `${to.host}/.s.PGSQL.${to.port}` }) : openSocket(to)
