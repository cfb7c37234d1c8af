/** The key that verifies users' tokens, the algorithms that its type allows, and tokens of the development key. */
import { Config, DateTime, Duration, Effect, Predicate, Record, Redacted } from "effect"
import { createPublicKey, createSecretKey, type KeyObject } from "node:crypto"
import * as Setting from "../../services/timing/Setting.ts"
import type { TokenRules } from "../../services/tokens/TokenVerifier.ts"

export const names = ["JWT_SECRET", "JWT_PUBLIC_KEY", "JWT_JWKS_URL"] as const

/** `rulesOf` reads all of them together, because each is valid or not with the others. */
export const settings = {
  jwtSecret: Setting.optional(Setting.secret, {
    name: names[0],
    unset: "a development key",
    meaning: "HS256 secret of 32 bytes or more; exactly one of this and the next two",
    requiredBy: ["service", "backend"],
    alternatives: names.slice(1),
    secret: "text"
  }),
  jwtPublicKey: Setting.optional(Config.String, { name: names[1], unset: "unset", meaning: "PEM or JWK public key" }),
  jwksUrl: Setting.optional(Config.String, { name: names[2], unset: "unset", meaning: "JWKS URL" }),
  jwtAlgorithms: Setting.optional(Config.String, {
    name: "JWT_ALGORITHMS",
    unset: "by key type",
    meaning: "accepted algorithms as a comma-separated list"
  }),
  jwtIssuer: Setting.optional(Config.String, { name: "JWT_ISSUER", unset: "unset", meaning: "required issuer" }),
  jwtAudience: Setting.optional(Config.String, { name: "JWT_AUDIENCE", unset: "unset", meaning: "required audience" })
}

type Environment = Setting.Environment

const rsa = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
const byCurve: Readonly<Record<string, string>> = { prime256v1: "ES256", secp384r1: "ES384", secp521r1: "ES512" }
const asymmetric = [...rsa, ...Object.values(byCurve), "EdDSA", "Ed25519"]

/** RFC 7518, 3.3, forbids shorter keys. */
const minRsaBits = 2048

const algorithmsOf = (key: KeyObject): ReadonlyArray<string> => {
  if ((key.asymmetricKeyDetails?.modulusLength ?? minRsaBits) < minRsaBits) {
    throw new Error(`JWT_PUBLIC_KEY must have ${minRsaBits} bits or more`)
  }
  switch (key.asymmetricKeyType) {
    case "rsa":
      return rsa
    case "rsa-pss":
      return rsa.filter((name) => name.startsWith("PS"))
    case "ed25519":
      return ["EdDSA", "Ed25519"]
    case "ec": {
      const algorithm = byCurve[key.asymmetricKeyDetails?.namedCurve ?? ""]
      if (algorithm !== undefined) return [algorithm]
    }
  }
  throw new Error("JWT_PUBLIC_KEY is of a kind that no supported algorithm uses")
}

/** Parses a JWK, or PEM with real line breaks or the two characters `\n`. */
const parsePublicKey = (text: string): KeyObject =>
  text.trimStart().startsWith("{")
    ? createPublicKey({ key: JSON.parse(text), format: "jwk" })
    : createPublicKey(text.replaceAll("\\n", "\n"))

const keyOf = (env: Environment, developmentSecret: string | undefined) => {
  const given = names.filter((name) => env[name] !== undefined)
  if (given.length > 1) throw new Error(`set only one of ${given.join(", ")}`)
  const [name] = given
  const value = name === undefined ? developmentSecret : env[name]
  if (value === undefined) return undefined
  switch (name) {
    case "JWT_PUBLIC_KEY": {
      const key = parsePublicKey(value)
      return { key, allowed: algorithmsOf(key), algorithms: algorithmsOf(key) }
    }
    case "JWT_JWKS_URL":
      return { key: new URL(value), allowed: asymmetric, algorithms: asymmetric }
    default: {
      const key = createSecretKey(value, "utf8")
      if ((key.symmetricKeySize ?? 0) < 32) throw new Error("JWT_SECRET must have 32 bytes or more")
      return { key, allowed: ["HS256", "HS384", "HS512"], algorithms: ["HS256"] }
    }
  }
}

/** Accepts no token. */
export const noRules: TokenRules = { key: new Uint8Array(), algorithms: [], issuer: undefined, audience: undefined }

/** Without a key, which only production lacks, accepts no token. */
export const rulesOf = (env: Environment, developmentSecret: string | undefined): TokenRules => {
  const found = keyOf(env, developmentSecret)
  if (found === undefined) return noRules
  const { algorithms, allowed, key } = found
  const pinned = env["JWT_ALGORITHMS"]?.split(",").map((name) => name.trim())
  const wrong = pinned?.filter((name) => !allowed.includes(name)) ?? []
  if (wrong.length > 0) throw new Error(`JWT_ALGORITHMS: ${wrong.join(", ")} does not fit the key`)
  return {
    key,
    algorithms: pinned ?? algorithms,
    issuer: env["JWT_ISSUER"],
    audience: env["JWT_AUDIENCE"]
  }
}

/** Mints a token with the development key. */
export const mint = Effect.fnUntraced(function*(
  secret: Redacted.Redacted,
  { jti, rules, sub = "developer", validFor = Duration.days(30) }: {
    /** What the token must have to be accepted; HS256 only by default. */
    readonly rules?: Pick<TokenRules, "algorithms" | "audience" | "issuer">
    readonly sub?: string
    readonly jti?: string | undefined
    readonly validFor?: Duration.Duration
  } = {}
) {
  // Imported here so that the command line starts quickly.
  const jose = yield* Effect.promise(() => import("jose"))
  const now = yield* DateTime.now
  const expires = DateTime.addDuration(now, validFor)
  const claims = { jti, iss: rules?.issuer, aud: rules?.audience }
  return yield* Effect.promise(() =>
    new jose.SignJWT({ sub, ...Record.filter(claims, Predicate.isNotUndefined) })
      .setProtectedHeader({ alg: rules?.algorithms[0] ?? "HS256", typ: "JWT" })
      .setIssuedAt(DateTime.toDate(now))
      .setExpirationTime(DateTime.toDate(expires))
      .sign(new TextEncoder().encode(Redacted.value(secret)))
  )
})
