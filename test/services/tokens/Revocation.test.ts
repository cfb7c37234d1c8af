import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Queue, Ref } from "effect"
import { TestClock } from "effect/testing"
import { Revocation } from "../../../src/domain/Revocation.ts"
import { StoreUnavailable } from "../../../src/domain/StoreUnavailable.ts"
import { now } from "../../../src/domain/Timestamp.ts"
import { RevocationRepository } from "../../../src/services/store/revocations/RevocationRepository.ts"
import * as RevocationRepositoryMemory from "../../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import { Tasks } from "../../../src/services/tasks/Tasks.ts"
import { TokenRevocations } from "../../../src/services/tokens/TokenRevocations.ts"
import {
  accepts,
  caller,
  type CoreScript,
  envelope,
  question,
  reportTo,
  statusOf,
  unavailable,
  withCore
} from "../../kit/TestTasks.ts"

const revocation = Revocation.cases.Token.make({ tokenId: caller.principal.tokenId, expiresAt: null })

describe("a revoked token", () => {
  it.effect("is not sent to a core that was unavailable when it was revoked", () =>
    Effect.gen(function*() {
      const isAway = yield* Ref.make(true)
      const script: CoreScript = {
        onStart: () => Effect.flatMap(Ref.get(isAway), (away) => away ? unavailable() : Effect.void)
      }
      yield* withCore(script, ({ starts }) =>
        Effect.gen(function*() {
          const tasks = yield* Tasks
          const { uuid } = yield* tasks.create(caller, question)
          yield* Queue.take(starts)
          yield* tasks.revoke(revocation)
          yield* Ref.set(isAway, false)
          yield* TestClock.adjust("10 seconds")
          assert.strictEqual(yield* Queue.size(starts), 0)
          assert.strictEqual(yield* statusOf(uuid), "failed: Token revoked")
        }))
    }))

  it.effect("ends the tasks that another node did not end before it died", () =>
    withCore({ onStart: accepts }, ({ layer, starts }) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        const { uuid } = yield* tasks.create(caller, question)
        yield* reportTo(tasks, { ...envelope(yield* Queue.take(starts)), type: "processing" })
        yield* Effect.flatMap(RevocationRepository, (store) => store.add(revocation))
        yield* TestClock.adjust("1 minute")
        assert.strictEqual(yield* statusOf(uuid), "failed: Token revoked")
      }).pipe(Effect.provide(layer))))
})

/** A node's revocations, with a store that another node writes to and that can become unavailable. */
const withNode = <A, E>(
  body: (store: {
    readonly repository: RevocationRepository["Service"]
    readonly fail: (fails: boolean) => Effect.Effect<void>
  }) => Effect.Effect<A, E, TokenRevocations>
) =>
  Effect.gen(function*() {
    const repository = yield* RevocationRepository
    let isAway = false
    const guarded = <B>(effect: Effect.Effect<B, StoreUnavailable>) =>
      Effect.suspend(() => isAway ? Effect.fail(new StoreUnavailable({ cause: "away" })) : effect)
    const faulty = Layer.succeed(RevocationRepository, {
      ...repository,
      since: (moment) => guarded(repository.since(moment)),
      isRevoked: (principal) => guarded(repository.isRevoked(principal))
    })
    const fail = (fails: boolean) => Effect.sync(() => void (isAway = fails))
    yield* body({ repository, fail }).pipe(
      Effect.provide(Layer.fresh(TokenRevocations.layer).pipe(Layer.provide(faulty)))
    )
  }).pipe(Effect.provide(Layer.fresh(RevocationRepositoryMemory.layer)))

describe("a node", () => {
  const { principal } = caller

  it.effect("rejects a token immediately after its own revocation, and within 5 s after one of another node", () =>
    withNode(({ repository }) =>
      Effect.gen(function*() {
        const revocations = yield* TokenRevocations
        const other = { ...principal, tokenId: "jti:other" }
        yield* revocations.check(principal)
        yield* revocations.revoke(revocation)
        assert.strictEqual((yield* Effect.flip(revocations.check(principal)))._tag, "TokenIsRevoked")

        const waiting = yield* Effect.forkChild(revocations.awaitRevoked(other), { startImmediately: true })
        yield* repository.add(Revocation.cases.Token.make({ tokenId: "jti:other", expiresAt: null }))
        yield* TestClock.adjust("5 seconds")
        assert.strictEqual((yield* Effect.flip(revocations.check(other)))._tag, "TokenIsRevoked")
        yield* Fiber.join(waiting)
      })
    ))

  it.effect("wakes waiters once for each new revocation, and for nothing else", () =>
    withNode(({ repository }) =>
      Effect.gen(function*() {
        const revocations = yield* TokenRevocations
        let checks = 0
        const counted = {
          ...principal,
          get tokenId() {
            checks++
            return "jti:patient"
          }
        }
        const waiting = yield* Effect.forkChild(revocations.awaitRevoked(counted), { startImmediately: true })
        yield* repository.add(revocation)
        yield* TestClock.adjust("10 minutes")
        assert.isAtMost(checks, 3)
        yield* Fiber.interrupt(waiting)
      })
    ))

  it.effect("loads earlier revocations at its start", () =>
    Effect.gen(function*() {
      const repository = yield* RevocationRepository
      yield* repository.add(
        Revocation.cases.User.make({ sub: principal.sub, issuedBefore: yield* now, expiresAt: null })
      )
      const check = Effect.flatMap(TokenRevocations, (revocations) => revocations.check(principal))
      // TestClock begins in 1970, before the token was issued.
      yield* check.pipe(Effect.provide(Layer.fresh(TokenRevocations.layer)))
      yield* TestClock.setTime(1_700_000_000_001)
      yield* repository.add(
        Revocation.cases.User.make({ sub: principal.sub, issuedBefore: yield* now, expiresAt: null })
      )
      const refused = yield* Effect.flip(check.pipe(Effect.provide(Layer.fresh(TokenRevocations.layer))))
      assert.strictEqual(refused._tag, "TokenIsRevoked")
    }).pipe(Effect.provide(Layer.fresh(RevocationRepositoryMemory.layer))))

  it.effect("accepts no token after 30 s without the store, until the store responds again", () =>
    withNode(({ fail, repository }) =>
      Effect.gen(function*() {
        const revocations = yield* TokenRevocations
        yield* fail(true)
        yield* TestClock.adjust("28 seconds")
        yield* revocations.check(principal)
        yield* TestClock.adjust("4 seconds")
        assert.strictEqual((yield* Effect.flip(revocations.check(principal)))._tag, "RevocationsUnknown")
        yield* repository.add(revocation)
        yield* fail(false)
        assert.strictEqual((yield* Effect.flip(revocations.check(principal)))._tag, "TokenIsRevoked")
        yield* revocations.check({ ...principal, tokenId: "jti:other" })
        yield* TestClock.adjust("2 seconds")
        yield* fail(true)
        assert.strictEqual((yield* Effect.flip(revocations.check(principal)))._tag, "TokenIsRevoked")
        yield* revocations.check({ ...principal, tokenId: "jti:other" })
      })
    ))
})
