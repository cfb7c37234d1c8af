/**
 * One description of a setting. Its value, the check for misspelled variables, its row in src/runtime/README.md, what production
 * requires and the tests of defaults and bounds follow from it. A group of settings is a record by the names of the fields.
 */
import { Config, ConfigProvider, Duration, Effect, Record, Redacted, Result } from "effect"

/** The variables that are set; none is blank. */
export type Environment = Readonly<Record<string, string>>

/** Without blanks, line breaks and a byte order mark around it, and without a pair of quotes, which `docker --env-file` keeps. */
const bare = (text: string) => text.trim().replace(/^(["'])((?:(?!\1).)*)\1$/s, "$2").trim()

/** The variables as an operator means them. A blank one is the same as an absent one. */
export const clean = (environment: Readonly<Record<string, string | undefined>>): Environment =>
  Object.fromEntries(
    Object.entries(environment).map(([name, text = ""]) => [name.trim(), bare(text)]).filter(([, text]) => text !== "")
  )

/** The variables whose value is not used as it is. */
export const cleaned = (environment: Readonly<Record<string, string | undefined>>): ReadonlyArray<string> =>
  Object.entries(environment).flatMap(([name, text = ""]) =>
    bare(text) === text || bare(text) === "" ? [] : [name.trim()]
  )

/** How a text is read, as by the functions of `Config`. */
export type Reader<A> = (name: string) => Config.Config<A>

/** A list that once was a single secret: a text is a list if each part has so many bytes. */
export interface Secrets {
  readonly partBytes: number
}

interface Description {
  /** The variable. */
  readonly name: string
  /** In Markdown. */
  readonly meaning: string
  /** The parts of the system that start in production only with a value. */
  readonly requiredBy?: ReadonlyArray<"service" | "core" | "backend">
  /** Other variables, one of which is enough where this one is required. */
  readonly alternatives?: ReadonlyArray<string>
  /** Production refuses values that are easy to guess: one or more secrets, a list of tokens, or a list of keys in base64. */
  readonly secret?: Secrets | "tokens" | "keys"
  /** The texts of the lowest and the highest value. */
  readonly bounds?: readonly [string, string]
  /** The maximum number of characters. */
  readonly longest?: number
  /** Whether a value may have several lines. */
  readonly isMultiline?: boolean
}

interface WithDefault extends Description {
  /** The text that is read when the variable is not set; empty means none. */
  readonly default: string
  /** The default in production. */
  readonly inProduction?: string
  /** The default with the embedded Postgres, which production does not have. */
  readonly embedded?: string
}

interface WithoutDefault extends Description {
  /** The value when the variable is not set. */
  readonly unset: string
}

export interface Setting<out A> extends Description {
  /** In Markdown. */
  readonly default: string
  readonly read: (env: Environment) => Result.Result<A, string>
  /** Stands for a value that cannot be read. */
  readonly neutral: A
}

export type Group = Readonly<Record<string, Setting<unknown>>>

export type Values<G extends Group> = { readonly [K in keyof G]: G[K] extends Setting<infer A> ? A : never }

export const isProduction = (env: Environment) => env["NODE_ENV"] === "production"

const parse = <A>(reader: Reader<A>, name: string, text: string): Result.Result<A, string> =>
  Effect.runSync(
    Effect.result(reader(name).parse(ConfigProvider.fromUnknown({ [name]: text }, { preserveEmptyStrings: true })))
  ).pipe(
    Result.mapError(({ cause }) => cause.message.split("\n", 1)[0] ?? "")
  )

/** A line break within a value comes from a wrong file. Only after a comma of a list it changes nothing. */
const brokenLine = /\p{Cc}/u

const read = <A>(reader: Reader<A>, { isMultiline = false, name }: Description, text: string) =>
  !isMultiline && brokenLine.test(text.replaceAll(/\s*,\s*/g, ","))
    ? Result.fail("contains a line break or another control character: write it in one line")
    : /^(["']).+\1$/s.test(text)
    ? Result.fail("has quotes, which are no part of a value: write it without")
    : parse(reader, name, text)

/** A setting that always has a value. */
export const setting = <A>(reader: Reader<A>, description: WithDefault): Setting<A> => {
  const { default: usual, embedded = usual, inProduction = usual, name } = description
  const others = [
    ...(inProduction === usual ? [] : [`in production \`${inProduction}\``]),
    ...(embedded === usual ? [] : [`with the embedded Postgres \`${embedded}\``])
  ]
  const fallback = (env: Environment) =>
    isProduction(env) ? inProduction : env["DATABASE_URL"] === undefined ? embedded : usual
  return {
    ...description,
    default: [usual === "" ? "none" : `\`${usual}\``, ...others].join("; "),
    read: (env) => read(reader, description, env[name] ?? fallback(env)),
    neutral: Result.getOrThrow(parse(reader, name, usual))
  }
}

/** A setting that may have no value; then it is undefined. */
export const optional = <A>(reader: Reader<A>, description: WithoutDefault): Setting<A | undefined> => {
  const { name, unset } = description
  return {
    ...description,
    default: unset,
    read: (env) => env[name] === undefined ? Result.succeed(undefined) : read(reader, description, env[name]),
    neutral: undefined
  }
}

/** A number between two others. */
export const integer = (minimum: number, maximum: number, description: WithDefault): Setting<number> =>
  setting(
    checked(Config.Int, (value) => value >= minimum && value <= maximum, `must be between ${minimum} and ${maximum}`),
    { ...description, bounds: [String(minimum), String(maximum)] }
  )

/** A duration between two others; `problem` describes them. */
export const duration = (
  minimum: Duration.Duration,
  maximum: Duration.Duration,
  problem: string,
  description: WithDefault
): Setting<Duration.Duration> =>
  setting(checked(Config.Duration, Duration.between({ minimum, maximum }), problem), {
    ...description,
    bounds: [`${Duration.toMillis(minimum)} millis`, `${Duration.toMillis(maximum)} millis`]
  })

export const checked = <A>(reader: Reader<A>, isValid: (value: A) => boolean, problem: string): Reader<A> => (name) =>
  Config.flatMap(reader(name), (value) => isValid(value) ? Config.succeed(value) : fail(problem))

/** Reads by a function that throws an error with the reason when the text is invalid. */
export const parsed = <A>(parse: (text: string) => A): Reader<A> => (name) =>
  Config.flatMap(Config.String(name), (text) => {
    try {
      return Config.succeed(parse(text))
    } catch (error) {
      return fail(error instanceof Error ? error.message : String(error))
    }
  })

const fail = (message: string) => Config.fail(new ConfigProvider.SourceError({ message }))

const withoutTrailingSlash = (url: URL) => url.href.replace(/(?<!\/)\/+$/, "")

/** A likely fault of a URL that cannot be read; empty unless its user or password has such a character. */
export const encodingHint = (text: string): string => {
  const credentials = text.slice(text.indexOf("://") + 3, text.lastIndexOf("@"))
  return text.includes("@") && /[/?#\s]|%(?![0-9a-f]{2})/i.test(credentials)
    ? "; in user and password, percent-encode / as %2F, ? as %3F, # as %23 and % as %25"
    : ""
}

const urlOf = (text: string) => {
  const found = URL.parse(text)
  if (found === null || !/^https?:$/.test(found.protocol)) {
    throw new Error(`must be an http or https URL${encodingHint(text)}`)
  }
  return found
}

export const url: Reader<string> = parsed((text) => withoutTrailingSlash(urlOf(text)))

/** A URL to which paths are appended. */
export const baseUrl: Reader<string> = parsed((text) => {
  const found = urlOf(text)
  if (found.search !== "" || found.hash !== "") throw new Error("must have no query and no fragment: paths follow it")
  return withoutTrailingSlash(found)
})

/** Kubernetes sets `NAME_PORT` to such a text for each Service `name`, unless the pod or the variable itself says otherwise. */
export const isServiceLink = (text: string | undefined): boolean => /^(tcp|udp|sctp):\/\//.test(text ?? "")

/** Advice about `NAME_PORT` of Kubernetes. */
export const serviceLinkAdvice = (name: string): string =>
  `Kubernetes sets it for the Service ${name.replace(/_PORT$/, "").toLowerCase().replaceAll("_", "-")}: `
  + `give ${name} a number, or the pod \`enableServiceLinks: false\``

export const port: Reader<number> = (name) =>
  Config.flatMap(Config.String(name), (text) =>
    isServiceLink(text)
      ? fail(`must be a number. ${serviceLinkAdvice(name)}`)
      : Config.Port(name))

export const commaList = (text: string): ReadonlyArray<string> =>
  text.split(",").map((item) => item.trim()).filter((item) => item !== "")

/** Reads a comma-separated list that is not empty. */
export const list = <A>(itemOf: (item: string) => A): Reader<readonly [A, ...Array<A>]> =>
  parsed((text) => {
    const [first, ...rest] = commaList(text).map(itemOf)
    if (first === undefined) throw new Error("must not be empty")
    return [first, ...rest]
  })

/** A header carries a secret only if it has no other characters. */
const sendable = (text: string) => {
  if (/[^\x20-\xff]/.test(text)) throw new Error("has a character that no HTTP header can carry: write plain ASCII")
  return Redacted.make(text)
}

export const secret: Reader<Redacted.Redacted> = parsed(sendable)

/** Tokens that are accepted. */
export const tokens: Reader<readonly [Redacted.Redacted, ...Array<Redacted.Redacted>]> = list(sendable)
export const tokensOrNone: Reader<ReadonlyArray<Redacted.Redacted>> = parsed((text) => commaList(text).map(sendable))

/** A comma within a secret of several is written as %2C. */
const partsOf = (text: string) => {
  const parts = commaList(text)
  return parts.length > 1 ? parts.map((part) => part.replaceAll(/%2c/gi, ",")) : parts
}

/** Characters of the name of a token. */
const longestName = 64

/** Names in the order of another list; an empty one is left out. */
export const names: Reader<ReadonlyArray<string>> = parsed((text) => {
  const given = text.trim() === "" ? [] : text.split(",").map((name) => name.trim())
  const wrong = given.find((name) => name.length > longestName || /[\p{Cc}:]/u.test(name))
  if (wrong !== undefined) {
    throw new Error(`has the name ${wrong.slice(0, longestName)}: write 1 to ${longestName} characters without a colon`)
  }
  return given
})

/** The names of `count` tokens: those that have none are `token-1`, `token-2` and so on, by their place. */
export const tokenNames = (names: ReadonlyArray<string>, count: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, index) => names[index] || `token-${index + 1}`)

const hasBytes = (minimum: number) => (text: string) => Buffer.byteLength(text) >= minimum

/**
 * The first secret is used first. With a part that is too short, the text is one secret that holds commas: that part alone would be
 * easy to guess. Since a single secret may have long parts too, the whole text is the last one, unless it has several lines.
 */
export const secretsOf = ({ partBytes }: Secrets, text: string): readonly [string, ...Array<string>] => {
  const parts = partsOf(text)
  const isList = parts.every(hasBytes(partBytes))
  const [first = text, ...rest] = new Set([
    ...(isList ? parts : []),
    ...(isList && brokenLine.test(text) ? [] : [text])
  ])
  return [first, ...rest]
}

/** The secrets of tokens that another system accepts, or none. */
export const tokenSecrets: Secrets = { partBytes: 16 }

export const secrets: Reader<ReadonlyArray<Redacted.Redacted>> = parsed((text) =>
  text === "" ? [] : secretsOf(tokenSecrets, text).map(sendable)
)

/** Texts of which some parts are long enough for secrets of a list, and others are not. */
export const secretWarnings = (settings: ReadonlyArray<Setting<unknown>>, env: Environment): ReadonlyArray<string> =>
  settings.flatMap(({ name, secret }) => {
    if (secret === undefined || typeof secret === "string") return []
    const kinds = new Set(partsOf(env[name] ?? "").map(hasBytes(secret.partBytes)))
    return kinds.size === 2
      ? [`${name} is used as one secret with commas, because a part of it has fewer than ${secret.partBytes} bytes`]
      : []
  })

/** The values of a group. Each problem is reported, and a neutral value takes the place of the wrong one. */
export const values = <G extends Group>(
  group: G,
  env: Environment,
  report: (name: string, problem: string) => void
): Values<G> =>
  // The type of each field is the one of its setting.
  Record.map(group, ({ name, neutral, read }) =>
    Result.getOrElse(read(env), (problem) => {
      report(name, problem)
      return neutral
    })) as Values<G>

/** The values of a group of which no variable is set. */
export const defaults = <G extends Group>(group: G): Values<G> => values(group, {}, () => {})
