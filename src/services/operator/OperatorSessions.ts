/**
 * Operators: who has an internal token may do everything, who has a read token may change nothing. A browser exchanges the token
 * for a sealed session, which any node opens. A session ends when its token leaves the settings, and at its log-out, which is
 * stored like the revocation of a user's token.
 */
import { Context, Duration, Effect, Layer, Redacted, Schema, Struct } from "effect"
import { Digest, Mac } from "effect/crypto"
import { Revocation } from "../../domain/Revocation.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { now, plus, Timestamp } from "../../domain/Timestamp.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { type RevocationsUnknown, TokenRevocations } from "../tokens/TokenRevocations.ts"
import { WrongTokens } from "../tokens/WrongTokens.ts"

const Role = Schema.Literals(["full", "read"])

export const Operator = Schema.Struct({
  role: Role,
  /** The first 16 hexadecimal digits of the token's SHA-256, which logs and sessions name. */
  token: Schema.String,
  /** The name of the token's owner, which the audit has. */
  name: Schema.String
})
export type Operator = typeof Operator.Type

const purpose = "operator-session"

const Sealed = Schema.fromJsonString(Schema.Struct({
  ...Struct.omit(Operator.fields, ["name"]),
  issuedAt: Timestamp,
  seenAt: Timestamp
}))

export interface Session {
  /** The same each time that the session is sealed. */
  readonly id: string
  readonly operator: Operator
  readonly issuedAt: Timestamp
  readonly expiresAt: Timestamp
  /** Its last use is so long ago that it has to be sealed again. */
  readonly isStale: boolean
}

/** No token of an operator. */
export class LogInRefused extends Schema.TaggedError<LogInRefused>()("LogInRefused", {}) {
  override get message() {
    return "This is no token of an operator."
  }
}

export class TooManyLogIns extends Schema.TaggedError<TooManyLogIns>()("TooManyLogIns", {}) {
  override get message() {
    return "Too many failed log-ins on this node. Try again in a minute."
  }
}

export interface NamedToken {
  readonly token: Redacted.Redacted
  readonly name: string
}

/** Tokens with their names. */
export const named = (tokens: ReadonlyArray<Redacted.Redacted>, names: ReadonlyArray<string>) =>
  tokens.map((token, index): NamedToken => ({ token, name: names[index] ?? "" }))

export interface OperatorTokens {
  readonly full: ReadonlyArray<NamedToken>
  readonly read: ReadonlyArray<NamedToken>
  /** The longest life of a session. */
  readonly lifetime: Duration.Duration
}

/** A session that is not used ends after this time. */
const idleTimeout = Duration.hours(1)
const resealAfter = Duration.minutes(10)
const refusalDelay = Duration.seconds(1)

const encoder = new TextEncoder()

export class OperatorSessions extends Context.Service<OperatorSessions, {
  /** The operators who have a token. */
  readonly known: ReadonlyArray<Pick<Operator, "name" | "role">>
  /** The operator who has a token; undefined for another text, which counts as a failed log-in. */
  readonly identify: (token: string) => Effect.Effect<Operator | undefined>
  /**
   * The same for a log-in. A wrong token is refused after a second, and immediately after ten wrong ones of any route in a minute. A right one is
   * accepted whatever others try.
   */
  readonly logIn: (token: string) => Effect.Effect<Operator, LogInRefused | TooManyLogIns>
  /** Seals a session: a new one, or one that began at `issuedAt`. */
  readonly seal: (operator: Operator, issuedAt?: Timestamp) => Effect.Effect<string>
  /** Undefined when the session has ended, or the text is none. */
  readonly open: (sealed: string) => Effect.Effect<Session | undefined, RevocationsUnknown>
  /** Ends a session on this node, and within seconds on the others. */
  readonly end: (session: Session) => Effect.Effect<void, StoreUnavailable>
}>()("async-task-service/services/operator/OperatorSessions") {
  static readonly layer = (tokens: OperatorTokens) =>
    Layer.effect(OperatorSessions, make(tokens)).pipe(Layer.provide([Digest.layerWebCrypto, WrongTokens.layer]))
}

const make = Effect.fnUntraced(function*({ full, lifetime, read }: OperatorTokens) {
  const digest = yield* Digest.Digest
  const secrets = yield* Secrets
  const revocations = yield* TokenRevocations
  const known = yield* Effect.forEach(
    [...full.map((token) => ["full", token] as const), ...read.map((token) => ["read", token] as const)],
    ([role, { name, token }]) => {
      const bytes = encoder.encode(Redacted.value(token))
      return Effect.map(digest.digestHex(Digest.sha256, bytes), (hash) => ({
        bytes,
        operator: Operator.make({ role, token: hash.slice(0, 16), name })
      }))
    }
  )
  const wrong = yield* WrongTokens

  const find = (token: string) => {
    const given = encoder.encode(token)
    return known.find(({ bytes }) => Mac.timingSafeEqual(bytes, given))?.operator
  }

  const hash = (text: string) => digest.digestHex(Digest.sha256, encoder.encode(text))

  const unseal = (sealed: string): Effect.Effect<Session | undefined> =>
    Effect.gen(function*() {
      const text = yield* Effect.catchDefect(secrets.open(purpose, sealed), () => new LogInRefused())
      const { issuedAt, role, seenAt, token } = yield* Schema.decodeEffect(Sealed)(Redacted.value(text))
      const at = yield* now
      const expiresAt = plus(issuedAt, lifetime)
      const operator = known.find((one) => one.operator.token === token && one.operator.role === role)?.operator
      if (operator === undefined || at >= expiresAt || at >= plus(seenAt, idleTimeout)) return undefined
      const id = `sha256:${yield* hash(`${purpose} ${token} ${issuedAt}`)}`
      return { id, operator, issuedAt, expiresAt, isStale: at >= plus(seenAt, resealAfter) }
    }).pipe(Effect.orElseSucceed(() => undefined))

  return OperatorSessions.of({
    known: known.map(({ operator: { name, role } }) => ({ name, role })),
    identify: Effect.fnUntraced(function*(token) {
      const operator = find(token)
      if (operator === undefined) yield* wrong.count
      return operator
    }),
    logIn: Effect.fnUntraced(function*(token) {
      const operator = find(token)
      if (operator !== undefined) return operator
      if (yield* wrong.count) return yield* new TooManyLogIns()
      yield* Effect.sleep(refusalDelay)
      return yield* new LogInRefused()
    }),
    seal: Effect.fnUntraced(function*(operator, issuedAt) {
      const at = yield* now
      const session = { role: operator.role, token: operator.token, issuedAt: issuedAt ?? at, seenAt: at }
      return yield* secrets.seal(purpose, Redacted.make(yield* Effect.orDie(Schema.encodeEffect(Sealed)(session))))
    }),
    open: Effect.fnUntraced(function*(sealed) {
      const session = yield* unseal(sealed)
      if (session === undefined) return undefined
      const principal = { tokenId: session.id, sub: "", issuedAt: session.issuedAt / 1_000_000 }
      return yield* revocations.check(principal).pipe(
        Effect.as(session),
        Effect.catchTag("TokenIsRevoked", () => Effect.undefined)
      )
    }),
    end: ({ expiresAt, id }) => revocations.revoke(Revocation.cases.Token.make({ tokenId: id, expiresAt }))
  })
})
