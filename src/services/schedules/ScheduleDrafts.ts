/** Checks the schedules that users write, and makes schedules of them that their token authorizes. */
import { Effect, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import type { Caller } from "../../domain/Principal.ts"
import { now, type Timestamp } from "../../domain/Timestamp.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { RunTokens } from "./RunTokens.ts"
import {
  armed,
  type Authorization,
  type Definition,
  isSameDefinition,
  isSameTiming,
  problemsOf,
  type Schedule,
  ScheduleId
} from "./Schedule.ts"
import * as Errors from "./ScheduleErrors.ts"

/** The task of a schedule: the body of `POST /api/tasks` as JSON, without its secret. */
export interface TaskTemplate {
  readonly body: string
  readonly secret: string | null
}

/** A whole schedule, as its user wrote it. */
export interface Draft {
  readonly key: string | null
  readonly definition: Definition
  readonly task: TaskTemplate
}

/** The fields that change; of the definition those that were given. */
export interface Changes {
  readonly key?: string | null
  readonly definition: Partial<Definition>
  readonly task?: TaskTemplate
}

const withoutSource = "Schedules of this kind need tokens for later: the setting TOKEN_URL of the service is not set"

export const makeAuthorize = Effect.gen(function*() {
  const secrets = yield* Secrets
  const { isMinting } = yield* RunTokens

  /** The authorization by a caller of a definition whose next moment is `next`. */
  return Effect.fnUntraced(function*(caller: Caller, definition: Definition, next: Timestamp | null) {
    const { principal: { issuedAt, tokenId }, token } = caller
    const at = yield* now
    const authorization: Authorization = { tokenId, issuedAt, at, token: null }
    if (isMinting) return authorization
    if (definition.type === "cron") {
      return yield* new Errors.InvalidSchedule({ errors: { type: withoutSource } })
    }
    if (next !== null && next >= caller.expiresAt * 1_000_000) {
      const field = definition.delay === null ? "run_at" : "delay"
      const message = `Is later than the end of the token. ${withoutSource}`
      return yield* new Errors.InvalidSchedule({ errors: { [field]: message } })
    }
    return { ...authorization, token: yield* secrets.seal("user-token", token) }
  })
})

/** Says whether a draft is the same as a stored schedule. */
export const makeIsSame = Effect.map(Secrets, (secrets) => {
  const isSameTask = Effect.fnUntraced(function*(before: Schedule, { body, secret }: TaskTemplate) {
    if (before.task !== body || (before.callbackSecret === null) !== (secret === null)) return false
    return before.callbackSecret === null ||
      Redacted.value(yield* secrets.open("callback-secret", before.callbackSecret)) === secret
  })

  return (before: Schedule, { definition, task }: Draft) =>
    isSameDefinition(before.definition, definition) ? isSameTask(before, task) : Effect.succeed(false)
})

/** Checks definitions, and makes schedules of them. */
export const makeDefining = Effect.gen(function*() {
  const secrets = yield* Secrets
  const random = yield* SecureRandom.SecureRandom
  const authorize = yield* makeAuthorize

  const sealed = (secret: string | null) =>
    secret === null ? Effect.succeed(null) : secrets.seal("callback-secret", Redacted.make(secret))

  const check = Effect.fnUntraced(function*(definition: Definition, at: Timestamp) {
    const errors = problemsOf(definition, at)
    if (Object.keys(errors).length > 0) return yield* new Errors.InvalidSchedule({ errors })
  })

  const newSchedule = Effect.fnUntraced(function*(caller: Caller, { definition, key, task }: Draft) {
    const at = yield* now
    yield* check(definition, at)
    const nextAt = armed(definition, at)
    const schedule: Schedule = {
      id: ScheduleId.make(yield* random.uuidV7()),
      sub: caller.principal.sub,
      key,
      definition,
      task: task.body,
      callbackSecret: yield* sealed(task.secret),
      state: "active",
      pausedReason: null,
      nextAt,
      lastAt: null,
      revision: 0,
      version: 0,
      authorization: yield* authorize(caller, definition, nextAt),
      taskFailures: 0,
      tokenFailures: 0,
      createdAt: at,
      endedAt: null
    }
    return schedule
  })

  /** The schedule with another definition, armed again if its timing changed. */
  const changed = Effect.fnUntraced(function*(
    caller: Caller,
    before: Schedule,
    { definition, key, task }: Pick<Draft, "definition" | "key"> & { readonly task: TaskTemplate | undefined }
  ) {
    const at = yield* now
    const isArmed = !isSameTiming(before.definition, definition)
    if (isArmed) yield* check(definition, at)
    const nextAt = isArmed ? armed(definition, at) : before.nextAt
    const state = isArmed && before.state === "ended" ? "active" : before.state
    const after: Schedule = {
      ...before,
      key,
      definition,
      task: task?.body ?? before.task,
      callbackSecret: task === undefined ? before.callbackSecret : yield* sealed(task.secret),
      state,
      nextAt: state === "paused" && definition.type === "cron" ? null : nextAt,
      endedAt: state === "ended" ? before.endedAt : null,
      revision: before.revision + 1,
      version: before.version + 1,
      authorization: yield* authorize(caller, definition, nextAt)
    }
    return after
  })

  return { changed, newSchedule }
})
