/** New and resumed runs need an id, an encrypted token and an actor; repeated requests need none of it. */
import { Effect, Option } from "effect"
import { SecureRandom } from "effect/crypto"
import type { Caller } from "../../domain/Principal.ts"
import { RunId, type TaskId } from "../../domain/Task.ts"
import { IdempotencyKeyReused } from "../../domain/TaskErrors.ts"
import { now } from "../../domain/Timestamp.ts"
import { TaskActors } from "../actors/TaskActors.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { Changes } from "../signals/Changes.ts"
import { type RequestKey, TaskStore } from "../store/tasks/TaskStore.ts"
import { Secrets } from "../tokens/Secrets.ts"

export const make = Effect.gen(function*() {
  const store = yield* TaskStore
  const actors = yield* TaskActors
  const secrets = yield* Secrets
  const ownership = yield* TaskOwnership
  const changes = yield* Changes
  const random = yield* SecureRandom.SecureRandom
  const newRunId = Effect.map(random.uuidV7(), (id) => RunId.make(id))

  /** The verifier returns the same `Caller` while a token is cached, so each token is sealed once. */
  const sealedTokens = new WeakMap<Caller, string>()
  const sealToken = (caller: Caller) => {
    const known = sealedTokens.get(caller)
    if (known !== undefined) return Effect.succeed(known)
    return Effect.map(secrets.seal("user-token", caller.token), (sealed) => {
      sealedTokens.set(caller, sealed)
      return sealed
    })
  }

  /** The node of the first request may have died after the commit, before it started the actor. */
  const ensureActor = (uuid: TaskId) =>
    ownership.isMine(uuid)
      ? Effect.flatMap(store.heads([uuid]), Effect.forEach(actors.ensure, { discard: true }))
      : changes.publish(uuid)

  /** Whether the same request had the key before. It fails when another request had it. */
  const isReplayed = Effect.fnUntraced(function*(sub: string, key: RequestKey | undefined) {
    if (key === undefined) return false
    const found = Option.getOrUndefined(yield* store.usedKey(sub, key.value, yield* now))
    if (found === undefined) return false
    return found.fingerprint === key.fingerprint || (yield* new IdempotencyKeyReused({}))
  })

  return { ensureActor, isReplayed, newRunId, sealToken }
})

export interface TaskRuns extends Effect.Success<typeof make> {}
