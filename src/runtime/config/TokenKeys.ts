/** The keys that verify users' tokens, the algorithms that their types allow, and tokens of the development key. */
import { Config, DateTime, Duration, Effect, Predicate, Record, Redacted, UndefinedOr } from "effect"
import { createSecretKey, type KeyObject } from "node:crypto"
import * as Setting from "../../services/settings/Setting.ts"
import type { TokenRules } from "../../services/tokens/TokenVerifier.ts"
import * as PublicKeys from "./PublicKeys.ts"

export const names = ["JWT_SECRET", "JWT_PUBLIC_KEY", "JWT_JWKS_URL"] as const

/** RFC 7518, 3.2, forbids shorter secrets. */
const minSecretBytes = 32

const secret = { partBytes: minSecretBytes }

/** The secrets of JWT_SECRET: the first signs, all verify. */
export const secretsOf = (text: string) => Setting.secretsOf(secret, text)

/** `rulesOf` reads all of them together, because each is valid or not with the others. */
export const settings = {
  jwtSecret: Setting.optional(Config.Redacted, {
    name: names[0],
    unset: "a development key",
    meaning: "list of HS256 secrets of 32 bytes or more, all of which verify; exactly one of this and the next two",
    requiredBy: ["service", "backend"],
    alternatives: names.slice(1),
    secret
  }),
  jwtPublicKey: Setting.optional(Config.String, {
    name: names[1],
    unset: "unset",
    meaning: "public keys: PEM, X.509 certificates, base64 of either or of DER, a JWK or a JWKS",
    isMultiline: true
  }),
  jwksUrl: Setting.optional(Setting.url, { name: names[2], unset: "unset", meaning: "JWKS URL" }),
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

/** Empty for a kind of key that no supported algorithm uses. */
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
  return []
}

/** A set may also hold keys of other kinds. */
const publicKeysOf = (text: string) => {
  const keys = PublicKeys.parse(text).map((key) => ({ key, algorithms: algorithmsOf(key) }))
  const usable = keys.filter(({ algorithms }) => algorithms.length > 0)
  if (usable.length === 0) throw new Error("JWT_PUBLIC_KEY is of a kind that no supported algorithm uses")
  return usable
}

const keysOf = (env: Environment, developmentSecret: string | undefined): TokenRules["keys"] | undefined => {
  const given = names.filter((name) => env[name] !== undefined)
  if (given.length > 1) throw new Error(`set only one of ${given.join(", ")}`)
  const [name] = given
  const value = name === undefined ? developmentSecret : env[name]
  if (value === undefined) return undefined
  switch (name) {
    case "JWT_PUBLIC_KEY":
      return publicKeysOf(value)
    case "JWT_JWKS_URL":
      return URL.parse(value) ?? undefined
    default: {
      const secrets = secretsOf(value)
      if (secrets.some((one) => Buffer.byteLength(one) < minSecretBytes)) {
        throw new Error(`${name ?? "the file jwt-secret of DATA_DIR"} must have ${minSecretBytes} bytes or more`)
      }
      return secrets.map((secret) => ({
        key: createSecretKey(secret, "utf8"),
        algorithms: ["HS256", "HS384", "HS512"]
      }))
    }
  }
}

/** Accepts no token. */
export const noRules: TokenRules = { keys: [], algorithms: [], issuer: undefined, audience: undefined }

/** Without a key, which only production lacks, accepts no token. */
export const rulesOf = (env: Environment, developmentSecret: string | undefined): TokenRules => {
  const keys = keysOf(env, developmentSecret)
  if (keys === undefined) return noRules
  const allowed = keys instanceof URL ? asymmetric : [...new Set(keys.flatMap(({ algorithms }) => algorithms))]
  const pinned = UndefinedOr.map(env["JWT_ALGORITHMS"], Setting.commaList)
  const wrong = pinned?.filter((name) => !allowed.includes(name)) ?? []
  if (wrong.length > 0) throw new Error(`JWT_ALGORITHMS: ${wrong.join(", ")} does not fit the key`)
  return {
    keys,
    algorithms: pinned ?? (allowed.includes("HS256") ? ["HS256"] : allowed),
    issuer: env["JWT_ISSUER"],
    audience: env["JWT_AUDIENCE"]
  }
}

export interface MintOptions {
  /** The rules by which the service accepts the token; HS256 only by default. */
  readonly rules?: Pick<TokenRules, "algorithms" | "audience" | "issuer">
  readonly sub?: string
  readonly jti?: string | undefined
  readonly validFor?: Duration.Duration
}

/** Mints a token with the development key. */
export const mint = Effect.fnUntraced(function*(
  secret: Redacted.Redacted,
  { jti, rules, sub = "developer", validFor = Duration.days(30) }: MintOptions = {}
) {
  // Imported here so that the command line starts quickly.
  const { SignJWT } = yield* Effect.promise(() => import("jose/jwt/sign"))
  const now = yield* DateTime.now
  const expires = DateTime.addDuration(now, validFor)
  const claims = { jti, iss: rules?.issuer, aud: rules?.audience }
  return yield* Effect.promise(() =>
    new SignJWT({ sub, ...Record.filter(claims, Predicate.isNotUndefined) })
      .setProtectedHeader({ alg: rules?.algorithms[0] ?? "HS256", typ: "JWT" })
      .setIssuedAt(DateTime.toDate(now))
      .setExpirationTime(DateTime.toDate(expires))
      .sign(new TextEncoder().encode(Redacted.value(secret)))
  )
})
