/** The contract of every store of revoked tokens, and of their effect on tasks, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { fromValue, OpaqueJson } from "../../src/domain/json/OpaqueJson.ts"
import type { Principal } from "../../src/domain/Principal.ts"
import { Revocation } from "../../src/domain/Revocation.ts"
import { TaskEvent } from "../../src/domain/Task.ts"
import { now, plus, Timestamp } from "../../src/domain/Timestamp.ts"
import { RevocationRepository } from "../../src/services/store/revocations/RevocationRepository.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { makeTask, type StoreTests } from "./StoredTasks.ts"

const { Token, User } = Revocation.cases
const { Accepted, Completed, Interrupted } = TaskEvent.cases

/** Seconds since the epoch, as in `iat`. */
const issuedAt = 1_700_000_000
const at = (seconds: number) => Timestamp.make(seconds * 1_000_000)
const turn = OpaqueJson.make(`{"output":[]}`)
const toolCalls = fromValue([{ id: "c", name: "look", arguments: {} }])
const interrupted = Interrupted.make({ toolCalls, state: null, turn: null })

let number = 0
const newPrincipal = (overrides: Partial<Principal> = {}): Principal => ({
  sub: `user-${process.pid}-${++number}`,
  tokenId: `jti:${process.pid}-${number}`,
  issuedAt,
  ...overrides
})

const stored = Effect.fnUntraced(function*(principal: Principal, ...events: ReadonlyArray<TaskEvent>) {
  const store = yield* TaskStore
  const task = yield* makeTask({ principal })
  yield* store.create(task, 5)
  for (const event of events) yield* store.commit(task.uuid, event, yield* now)
  return task
})

export const contract = (it: StoreTests) => {
  it.effect("revokes one token by its id, and no other", () =>
    Effect.gen(function*() {
      const revocations = yield* RevocationRepository
      const principal = newPrincipal()
      assert.isFalse(yield* revocations.isRevoked(principal))
      yield* revocations.add(Token.make({ tokenId: principal.tokenId, expiresAt: null }))
      assert.isTrue(yield* revocations.isRevoked(principal))
      assert.isFalse(yield* revocations.isRevoked({ ...principal, tokenId: "jti:another" }))
    }))

  it.effect("revokes a user's tokens issued before a moment, which never moves back", () =>
    Effect.gen(function*() {
      const revocations = yield* RevocationRepository
      const principal = newPrincipal()
      const { sub } = principal
      yield* revocations.add(User.make({ sub, issuedBefore: at(issuedAt), expiresAt: null }))
      assert.isFalse(yield* revocations.isRevoked(principal))
      assert.isTrue(yield* revocations.isRevoked({ ...principal, issuedAt: issuedAt - 1 }))
      assert.isTrue(yield* revocations.isRevoked({ ...principal, issuedAt: null }))
      yield* revocations.add(User.make({ sub, issuedBefore: at(issuedAt + 1), expiresAt: null }))
      yield* revocations.add(User.make({ sub, issuedBefore: at(1), expiresAt: null }))
      assert.isTrue(yield* revocations.isRevoked(principal))
      assert.isFalse(yield* revocations.isRevoked({ ...principal, sub: "another" }))
    }))

  it.effect("returns revocations since a moment, and deletes them when no task of their tokens can be live", () =>
    Effect.gen(function*() {
      const revocations = yield* RevocationRepository
      const [one, other] = [newPrincipal(), newPrincipal()]
      const expiresAt = at(issuedAt)
      const first = Token.make({ tokenId: one.tokenId, expiresAt })
      const second = User.make({ sub: other.sub, issuedBefore: at(issuedAt + 1), expiresAt: null })
      yield* revocations.add(first)
      yield* revocations.add(second)
      const isOurs = (revocation: Revocation) =>
        revocation._tag === "Token" ? revocation.tokenId === one.tokenId : revocation.sub === other.sub
      const { readAt, revocations: all } = yield* revocations.since(undefined)
      assert.sameDeepMembers(all.filter(isOurs), [first, second])
      assert.sameDeepMembers((yield* revocations.since(readAt)).revocations.filter(isOurs), [first, second])
      const later = yield* revocations.since(plus(readAt, "2 minutes"))
      assert.isEmpty(later.revocations)
      assert.isAtLeast(later.readAt, readAt)

      yield* revocations.deleteExpired(plus(expiresAt, "23 hours"), 1000)
      assert.isTrue(yield* revocations.isRevoked(one))
      yield* revocations.deleteExpired(plus(expiresAt, "24 hours"), 1000)
      assert.isFalse(yield* revocations.isRevoked(one))
      assert.isTrue(yield* revocations.isRevoked(other))
    }))

  it.effect("keeps the later expiry; none is the latest", () =>
    Effect.gen(function*() {
      const revocations = yield* RevocationRepository
      const principal = newPrincipal()
      yield* revocations.add(Token.make({ tokenId: principal.tokenId, expiresAt: null }))
      yield* revocations.add(Token.make({ tokenId: principal.tokenId, expiresAt: at(1) }))
      yield* revocations.deleteExpired(plus(yield* now, "3650 days"), 1000)
      assert.isTrue(yield* revocations.isRevoked(principal))
    }))

  it.effect("a token without a moment of issue is one of those issued before any revocation of its user", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const revocations = yield* RevocationRepository
      const principal = newPrincipal({ issuedAt: null })
      const [pending, processing] = [yield* stored(principal), yield* stored(principal, Accepted.make({}))]
      yield* revocations.add(User.make({ sub: principal.sub, issuedBefore: at(1), expiresAt: null }))
      assert.isTrue(yield* revocations.isRevoked(principal))
      const outcome = yield* store.commit(pending.uuid, Accepted.make({}), yield* now, { runId: pending.runId })
      assert.strictEqual(outcome._tag, "Revoked")
      const found = (yield* store.revoked(undefined, 1000)).filter(({ sub }) => sub === principal.sub)
      assert.deepStrictEqual(found.map(({ uuid }) => uuid), [processing.uuid])
    }))

  it.effect("finds processing tasks of revoked tokens, and no others", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const revocations = yield* RevocationRepository
      const [one, other, spared] = [newPrincipal(), newPrincipal(), newPrincipal()]
      const accepted = Accepted.make({})
      const processing = yield* stored(one, accepted)
      yield* stored(one)
      yield* stored(one, accepted, interrupted)
      yield* stored(one, accepted, Completed.make({ turn }))
      const ofUser = yield* stored(other, accepted)
      yield* stored(spared, accepted)
      yield* revocations.add(Token.make({ tokenId: one.tokenId, expiresAt: null }))
      yield* revocations.add(User.make({ sub: other.sub, issuedBefore: at(issuedAt + 1), expiresAt: null }))
      yield* revocations.add(User.make({ sub: spared.sub, issuedBefore: at(issuedAt), expiresAt: null }))

      const mine = new Set([one.sub, other.sub, spared.sub])
      const uuidsOf = (within: Duration.Duration | undefined) =>
        Effect.map(store.revoked(within, 1000), (heads) =>
          heads.filter(({ sub }) => mine.has(sub)).map(({ uuid }) => uuid).toSorted())
      const expected = [processing.uuid, ofUser.uuid].toSorted()
      assert.deepStrictEqual(yield* uuidsOf(undefined), expected)
      assert.deepStrictEqual(yield* uuidsOf(Duration.minutes(1)), expected)
      assert.deepStrictEqual(yield* uuidsOf(Duration.seconds(-60)), [])
    }))
}
