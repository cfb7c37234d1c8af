/**
 * Parses database URLs as libpq does, with the spellings of other drivers. A parameter that the service does not follow is ignored and
 * named by a warning, but one whose loss would make a connection less safe, or lead elsewhere, is refused.
 */
import type { PgConnection } from "@effect/sql-pg"
import { Duration, Redacted } from "effect"
import * as fs from "node:fs"
import { connect, type Socket } from "node:net"
import * as tls from "node:tls"
import { encodingHint } from "../../services/settings/Setting.ts"
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
  /** The parameter in whose place the certificate is verified although `sslmode` does not ask for it. */
  readonly verifiedFor: string | undefined
  /** Names of the parameters that are ignored. */
  readonly ignored: ReadonlyArray<string>
  readonly options: PgConnection.Config
}

const defaultPort = 5432
const defaultConnectTimeout = 10

/** Values that mean what the service does anyway. */
const usual = new RegExp(
  "^(gssencmode=(disable|prefer)|sslnegotiation=postgres|sslsni=1|sslcompression=0|gssdelegation=0|sslcertmode=allow"
    + "|client_encoding=(utf-?8|auto)|load_balance_hosts=disable|uselibpqcompat=true"
    + "|target_session_attrs=(any|read-write|primary|prefer-standby)"
    + "|targetServerType=(any|primary|master|preferPrimary|preferSecondary))$",
  "i"
)

/** Only tune a connection, although their names begin as `guarded` ones. */
const harmless = /^(sslnegotiation|sslsni|sslcompression|gsslib|gssdelegation|krbsrvname)$/i

/** Parameters by which a connection is secured, or which say where it leads. One that is not followed must not be ignored. */
const guarded = /^(ssl|tls|gss|krb|channel|auth|require|oauth|scram|service|passfile|replication|target|socketFactory)/i

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

const isLocal = ({ host }: Host) => /^(\/.*|localhost|127(\.\d+){3}|::1)$/.test(host)

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

/** The value of a parameter, which is then no longer among the unknown ones. */
type Take = (name: string) => string | undefined

const read = (name: string, file: string): string => {
  try {
    return fs.readFileSync(file, "utf8")
  } catch {
    return refuse(`${name}: ${file} cannot be read`)
  }
}

/** Images without the package of authorities have no system store. */
const systemAuthorities = () => {
  const found = tls.getCACertificates("system")
  return found.length > 0 ? found : tls.getCACertificates("bundled")
}

const readAuthorities = (file: string): ReadonlyArray<string> =>
  file === "system" ? systemAuthorities() : [read("sslrootcert", file)]

/** The certificate may name any of the hosts, because a connection to another one is not distinguished. */
const identityOf = (hosts: Hosts) => (_: string, certificate: tls.PeerCertificate) => {
  const errors = hosts.map(({ host }) => tls.checkServerIdentity(host, certificate))
  return errors.includes(undefined) ? undefined : errors[0]
}

const unverified = { rejectUnauthorized: false }

const verificationOf = (mode: string, rootCertificate: string | undefined, hosts: Hosts): tls.ConnectionOptions => {
  if (rootCertificate === "system" && mode !== "verify-full") refuse("sslrootcert=system requires sslmode=verify-full")
  const ca = rootCertificate === undefined ? undefined : { ca: [...readAuthorities(rootCertificate)] }
  switch (mode) {
    case "allow":
    case "prefer":
      return unverified
    case "require":
      return ca === undefined ? unverified : { ...ca, checkServerIdentity: () => undefined }
    case "verify-ca":
      return ca === undefined
        ? refuse("sslmode=verify-ca requires sslrootcert, the file of the authority's certificate")
        : { ...ca, checkServerIdentity: () => undefined }
    case "verify-full":
      return { ...ca, checkServerIdentity: identityOf(hosts) }
    default:
      return refuse(`sslmode=${mode} is not supported: disable, prefer, require, verify-ca and verify-full are`)
  }
}

const ownTls = ["sslcert", "sslkey", "sslpassword", "sslcrl", "ssl_min_protocol_version", "ssl_max_protocol_version"]

/** The certificate of this client, and bounds of TLS. */
const ownTlsOf = (take: Take): tls.ConnectionOptions => {
  const [cert, key, passphrase, crl, min, max] = ownTls.map(take)
  if ((cert === undefined) !== (key === undefined)) {
    refuse("sslcert and sslkey need each other; the certificate of the server's authority is sslrootcert")
  }
  return {
    ...(cert === undefined || key === undefined ? {} : { cert: read("sslcert", cert), key: read("sslkey", key) }),
    ...(passphrase === undefined ? {} : { passphrase }),
    ...(crl === undefined ? {} : { crl: read("sslcrl", crl) }),
    ...(min === undefined ? {} : { minVersion: min as tls.SecureVersion }),
    ...(max === undefined ? {} : { maxVersion: max as tls.SecureVersion })
  }
}

const checked = (options: tls.ConnectionOptions) => {
  try {
    tls.createSecureContext(options)
  } catch (error) {
    refuse(
      `sslcert, sslkey, sslcrl or a version of TLS cannot be used: ${error instanceof Error ? error.message : error}`
    )
  }
  return options
}

const tlsOf = (mode: string, take: Take, hosts: Hosts): DatabaseUrl["tls"] => {
  if (mode === "disable" || isSocket(hosts[0])) {
    for (const name of ["sslrootcert", ...ownTls]) take(name)
    return undefined
  }
  return checked({ ...verificationOf(mode, take("sslrootcert"), hosts), ...ownTlsOf(take) })
}

/** `ssl` as drivers of other languages write it. */
const modeOfSsl = (value: string) =>
  /^(true|1|on|yes)$/.test(value) ? "require" : /^(false|0|off|no)$/.test(value) ? undefined : value

/**
 * The mode of TLS. Channel binding proves, and Prisma's `sslaccept=strict` asks, that the server is the right one: the driver knows
 * neither, and verifies the certificate instead. This machine needs no proof.
 */
const modeOf = (take: Take, rootCertificate: string | undefined, hosts: Hosts) => {
  const [sslmode, ssl] = [take("sslmode"), take("ssl")].map((value) => value?.toLowerCase())
  const given = sslmode ?? (ssl === undefined ? undefined : modeOfSsl(ssl))
  const named = given ?? (rootCertificate === "system" ? "verify-full" : undefined)
  const mode = named === "no-verify" ? "require" : named
  const proofs = ["sslaccept=strict", "channel_binding=require"].filter((proof) => {
    const [name = "", value] = proof.split("=")
    const found = take(name)
    return found?.toLowerCase() === value
  })
  const [proof] = proofs
  if (proof === undefined || mode === "verify-full" || mode === "verify-ca" || hosts.every(isLocal)) {
    return { mode, ignored: proofs }
  }
  if (mode === "disable") refuse(`${proof} needs TLS: remove it, or sslmode=disable`)
  return { mode: "verify-full", verifiedFor: proof, ignored: proofs }
}

const timeoutOf = (text: string | undefined) => {
  const seconds = Number(text ?? defaultConnectTimeout)
  if (!Number.isInteger(seconds)) refuse("connect_timeout must be a number of seconds")
  return Duration.seconds(seconds > 0 ? seconds : defaultConnectTimeout)
}

/** The settings of a session that a URL may name: `options` of libpq, and the schema as other drivers write it. */
const startupOptionsOf = (take: Take, ignore: (name: string) => void) => {
  const prisma = take("schema")
  // Prisma writes its default into each URL, and a pooler may refuse an option.
  if (prisma === "public") ignore("schema")
  const schema = prisma === undefined || prisma === "public" ? undefined : `"${prisma.replaceAll("\"", "\"\"")}"`
  const path = schema ?? take("currentSchema") ?? take("search_path")
  const options = [take("options"), path && `-c search_path=${path.replace(/[\\\s]/g, "\\$&")}`]
  return options.filter(Boolean).join(" ") || undefined
}

interface Parts {
  /** Hosts with their ports. */
  readonly authority: string
  readonly user: string | undefined
  readonly password: string | undefined
  readonly database: string | undefined
  readonly parameters: ReadonlyMap<string, string>
}

/** libpq leaves + as it is; forms write it for the blanks of `options`. */
const parametersOf = (query: string) =>
  new Map(
    query.split("&").filter((pair) => pair !== "").map((pair) => {
      const [name = "", ...value] = pair.split("=")
      if (!/^[\w.-]+$/.test(name)) refuse("a parameter has no valid name")
      const text = value.join("=")
      return [name, decode(name === "options" ? text.replaceAll("+", " ") : text, name)]
    })
  )

const urlParts = (text: string): Parts => {
  const [, authority = "", path = "", query = ""] =
    /^(?:postgres|postgresql|cockroachdb)(?:\+\w+)?:\/\/([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/i.exec(text) ??
      refuse("must be a URL as in postgres://user:password@host:5432/database")
  const at = authority.lastIndexOf("@")
  if (at < 0 && path.includes("@")) refuse("the name of the database contains @")
  if (at < 0 && /@[^&]*\//.test(query)) refuse("a parameter contains @ and /")
  const [, user = "", secret] = /^([^:]*)(?::(.*))?$/s.exec(authority.slice(0, Math.max(at, 0))) ?? []
  return {
    authority: authority.slice(at + 1),
    user: decode(user, "user") || undefined,
    password: secret === undefined ? undefined : decode(secret, "password"),
    database: decode(path, "database") || undefined,
    parameters: parametersOf(query)
  }
}

/** `host=db user=tasks password='a b'`, which libpq takes as well as a URL. */
const keywordParts = (text: string): Parts => {
  const parameters = new Map<string, string>()
  const pair = /\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))(?=\s|$)/gy
  let end = 0
  for (let found = pair.exec(text); found !== null; found = pair.exec(text)) {
    parameters.set(found[1] ?? "", (found[2] ?? found[3] ?? "").replace(/\\(.)/g, "$1"))
    end = pair.lastIndex
  }
  if (text.slice(end).trim() !== "") refuse("must be a URL as in postgres://user:password@host:5432/database")
  return { authority: "", user: undefined, password: undefined, database: undefined, parameters }
}

/** Consoles of providers print a URL within a command, or for JDBC, and a file of variables may keep its quotes. */
const bare = (text: string) =>
  text.trim().replace(/^psql\s+/, "").replace(/^(["'])(.*)\1$/s, "$2").replace(/^jdbc:/i, "")

const parseText = (text: string): DatabaseUrl => {
  const { authority, database, parameters: given, password, user } = /^\s*\w+\s*=/.test(text)
    ? keywordParts(text)
    : urlParts(text)
  const parameters = new Map(given)
  const take = (name: string) => {
    const value = parameters.get(name)
    parameters.delete(name)
    return value === "" ? undefined : value
  }
  const ignored: Array<string> = []
  const hosts = hostsOf(authority, take("host") ?? take("hostaddr"), take("port"))
  const { ignored: proofs, mode, verifiedFor } = modeOf(take, parameters.get("sslrootcert"), hosts)
  if (verifiedFor === undefined) ignored.push(...proofs.map((proof) => proof.split("=")[0] ?? ""))
  const secret = take("password") ?? password
  const parsed: Omit<DatabaseUrl, "ignored"> = {
    hosts,
    tls: tlsOf(mode ?? "prefer", take, hosts),
    sslmode: mode,
    verifiedFor,
    options: {
      username: take("user") ?? user,
      password: secret === undefined ? undefined : Redacted.make(secret),
      database: take("dbname") ?? database,
      applicationName: take("application_name") ?? take("ApplicationName") ?? take("fallback_application_name") ??
        "async-task-service",
      startupOptions: startupOptionsOf(take, (name) => ignored.push(name)),
      connectTimeout: timeoutOf(take("connect_timeout") ?? take("connectTimeout"))
    }
  }
  for (const [name, value] of parameters) {
    if (value === "" || usual.test(`${name}=${value}`)) continue
    if (/^target/i.test(name)) refuse(`${name}=${value}: the service writes`)
    // The value of a parameter that libpq does not know may be a secret.
    if (guarded.test(name) && !harmless.test(name)) refuse(`${name} is not supported`)
    ignored.push(name)
  }
  return { ...parsed, ignored }
}

/** Throws an error that names the wrong parameter. No message contains the URL, which may have a password. */
export const parse = (url: Redacted.Redacted): DatabaseUrl => {
  const text = bare(Redacted.value(url))
  try {
    return parseText(text)
  } catch (error) {
    return refuse(`${error instanceof Error ? error.message : error}${encodingHint(text)}`)
  }
}

/** True if a server without TLS is accepted. */
export const isTlsOptional = ({ sslmode = "prefer" }: DatabaseUrl) => sslmode === "prefer" || sslmode === "allow"

export const optionsFor = (url: DatabaseUrl, host: Host, isEncrypted: boolean): PgConnection.Config => ({
  ...url.options,
  ...host,
  stream: () => open(host),
  ssl: (isEncrypted && url.tls) ?? false
})

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

/** As logs and messages name a host. */
export const nameOf = ({ host, port }: Host) => host.startsWith("/") ? host : `${host}:${port}`

/** Connects to a host, at whatever distance its addresses are. */
export const open = (to: Host): Socket =>
  isSocket(to) ? connect({ path: `${to.host}/.s.PGSQL.${to.port}` }) : openSocket(to)
