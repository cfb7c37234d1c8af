import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { OperatorSessions, type OperatorTokens } from "../../../src/services/operator/OperatorSessions.ts"
import * as RevocationRepositoryMemory from "../../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import { Secrets } from "../../../src/services/tokens/Secrets.ts"
import { TokenRevocations } from "../../../src/services/tokens/TokenRevocations.ts"

const layerSecrets = Layer.succeed(Secrets, {
  seal: (purpose, text) => Effect.succeed(`${purpose} ${Redacted.value(text)}`),
  open: (purpose, sealed) =>
    sealed.startsWith(`${purpose} `)
      ? Effect.succeed(Redacted.make(sealed.slice(purpose.length + 1)))
      : Effect.die("of another purpose")
})

const layerRevocations = Layer.provide(TokenRevocations.layer, RevocationRepositoryMemory.layer)

const owned = (token: string) => ({ token: Redacted.make(token), name: `owner of ${token}` })

const tokens: OperatorTokens = {
  full: [owned("one"), owned("two")],
  read: [owned("three")],
  lifetime: Duration.hours(8)
}

const sessionsOf = (tokens: OperatorTokens) =>
  Effect.map(
    Layer.build(Layer.provide(Layer.fresh(OperatorSessions.layer(tokens)), [layerSecrets, layerRevocations])),
    (context) => Effect.provide(OperatorSessions, context)
  ).pipe(Effect.flatten)

describe("an operator's session", () => {
  it.effect("begins with a token of the settings", () =>
    Effect.gen(function*() {
      const sessions = yield* sessionsOf(tokens)
      assert.strictEqual((yield* sessions.logIn("two")).role, "full")
      assert.strictEqual((yield* sessions.logIn("three")).role, "read")
      assert.strictEqual((yield* sessions.logIn("three")).name, "owner of three")
      assert.isUndefined(yield* sessions.identify(""))
      assert.isUndefined(yield* sessions.identify("tw"))
    }))

  it.effect("ends after its lifetime, however much it is used, and after an hour without a request", () =>
    Effect.gen(function*() {
      const sessions = yield* sessionsOf(tokens)
      const operator = yield* sessions.logIn("one")
      let sealed = yield* sessions.seal(operator)
      assert.isFalse((yield* sessions.open(sealed))?.isStale)
      for (let halfHours = 1; halfHours < 16; halfHours++) {
        yield* TestClock.adjust("30 minutes")
        const session = yield* sessions.open(sealed)
        assert.isTrue(session?.isStale, `after ${halfHours} half hours`)
        sealed = yield* sessions.seal(operator, session!.issuedAt)
      }
      yield* TestClock.adjust("30 minutes")
      assert.isUndefined(yield* sessions.open(sealed))
      const idle = yield* sessions.seal(operator)
      yield* TestClock.adjust("59 minutes")
      assert.isDefined(yield* sessions.open(idle))
      yield* TestClock.adjust("1 minute")
      assert.isUndefined(yield* sessions.open(idle))
    }))

  it.effect("ends at the log-out, also where its cookie was copied or sealed again", () =>
    Effect.gen(function*() {
      const sessions = yield* sessionsOf(tokens)
      const operator = yield* sessions.logIn("one")
      const copied = yield* sessions.seal(operator)
      yield* TestClock.adjust("10 minutes")
      const other = yield* sessions.seal(operator)
      const session = yield* sessions.open(copied)
      const again = yield* sessions.seal(operator, session!.issuedAt)
      yield* sessions.end(session!)
      assert.isUndefined(yield* sessions.open(copied))
      assert.isUndefined(yield* sessions.open(again))
      assert.isDefined(yield* sessions.open(other), "another session of the same token")
      assert.isDefined(yield* sessions.identify("one"))
    }))

  it.effect("ends when its token leaves the settings or loses its role", () =>
    Effect.gen(function*() {
      const sessions = yield* sessionsOf(tokens)
      const sealed = yield* sessions.seal(yield* sessions.logIn("one"))
      assert.isDefined(yield* (yield* sessionsOf(tokens)).open(sealed))
      assert.isUndefined(yield* (yield* sessionsOf({ ...tokens, full: [owned("two")] })).open(sealed))
      const demoted = { ...tokens, full: [], read: [owned("one")] }
      assert.isUndefined(yield* (yield* sessionsOf(demoted)).open(sealed))
    }))

  it.effect("is not any other text, sealed or not", () =>
    Effect.gen(function*() {
      const sessions = yield* sessionsOf(tokens)
      const { token } = yield* sessions.logIn("one")
      const forged = JSON.stringify({ role: "full", token, issuedAt: 0, seenAt: 0 })
      const texts = ["", "v2", `callback-secret ${forged}`, forged, "operator-session {}", "operator-session one"]
      for (const text of texts) {
        assert.isUndefined(yield* sessions.open(text), text)
      }
    }))

  it.effect("refuses ten wrong tokens in a minute after a second, more of them immediately, and no right one", () =>
    Effect.gen(function*() {
      const sessions = yield* sessionsOf(tokens)
      const attempt = Effect.map(Effect.flip(sessions.logIn("wrong")), ({ _tag }) => _tag)
      for (let count = 0; count < 10; count++) {
        const fiber = yield* Effect.forkChild(attempt, { startImmediately: true })
        yield* TestClock.adjust("999 millis")
        assert.isUndefined(fiber.pollUnsafe())
        yield* TestClock.adjust("1 millis")
        assert.strictEqual(yield* Fiber.join(fiber), "LogInRefused")
      }
      assert.strictEqual(yield* attempt, "TooManyLogIns")
      assert.strictEqual((yield* sessions.logIn("one")).role, "full")
      yield* TestClock.adjust("1 minute")
      for (let count = 0; count < 10; count++) assert.isUndefined(yield* sessions.identify("wrong"))
      assert.strictEqual(yield* attempt, "TooManyLogIns")
      assert.strictEqual((yield* sessions.identify("three"))?.role, "read")
    }))
})
