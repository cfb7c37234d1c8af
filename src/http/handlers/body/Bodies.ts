/** The JSON bodies of REST and RPC, except those of extensions. */
import { Effect, identity, Result } from "effect"
import { CoreEvent, type CoreReport, CoreReports, readAppends, toReport } from "../../../domain/CoreProtocol.ts"
import * as JsonShape from "../../../domain/json/Shape.ts"
import { Kind } from "../../../domain/json/tables.ts"
import * as Limits from "../../../domain/Limits.ts"
import { CreateTaskBody, InternalCreateTaskBody, toCreateTask } from "../../../domain/TaskRequest.ts"
import { InternalRerunBody, RerunBody, toOverrides } from "../../../domain/TaskRerun.ts"
import { toToolResults } from "../../../domain/ToolCall.ts"
import type { TurnReport } from "../../../services/Extensions.ts"
import { invalid, type ValidationFailed } from "../../contract/Errors.ts"
import { CancelBody, RedeliverBody, ToolResultsBody } from "../../contract/TaskSchemas.ts"
import { RevokeBody, TokenBody } from "../../contract/TokenSchemas.ts"
import { type BodyKind, kind } from "./JsonBody.ts"

export const createTask = kind(CreateTaskBody, { to: toCreateTask })
export const rerunTask = kind(RerunBody, { whenEmpty: {}, to: toOverrides })

/** The same from an internal caller, on behalf of a user. */
export const internalCreateTask: typeof createTask = kind(InternalCreateTaskBody, { to: toCreateTask })
export const internalRerunTask: typeof rerunTask = kind(InternalRerunBody, { whenEmpty: {}, to: toOverrides })

export const toolResults = kind(ToolResultsBody, { to: ({ results }) => toToolResults(results) })

export const cancel = kind(CancelBody, { whenEmpty: {}, to: ({ reason }) => ({ reason: reason ?? null }) })

export const redeliver = kind(RedeliverBody, { whenEmpty: {}, to: identity })

const { captured } = JsonShape
/** The ids are known of an event that is too long to be kept. */
const envelope = { task_id: captured, run_id: captured, event_id: captured, type: captured }

/** The parts of a turn that an extension reads are found while the event is scanned. */
export const coreEvent = (report: TurnReport | undefined) =>
  kind(CoreEvent, {
    maxBytes: Limits.coreEventBytes,
    shape: (shape) =>
      JsonShape.merge(shape, JsonShape.object(report === undefined ? envelope : { ...envelope, turn: report.shape })),
    to: (event, body) => toReport(event, report && body && (() => report.read(body.found.field("turn"), body.bytes)))
  })

/** One of several events. */
export interface Batched {
  readonly found: JsonShape.Found
  readonly outcome: Result.Result<CoreReport, ValidationFailed>
}

/** One event, or several of any runs, each with what became of it. */
export type CoreEvents = { readonly event: CoreReport } | { readonly isTooLarge: true } | {
  readonly events: ReadonlyArray<Batched>
}

const tooManyEvents = invalid("events", `Must not have more than ${Limits.batchedEvents} items`)

export const coreEvents = (report: TurnReport | undefined): BodyKind<CoreEvents> => {
  const one = coreEvent(report)
  return {
    ...one,
    schema: CoreReports,
    whenEmpty: undefined,
    shape: JsonShape.merge(
      one.shape,
      JsonShape.object({ events: JsonShape.array(one.shape, Limits.batchedEvents) })
    ),
    decode: Effect.fnUntraced(function*(found, bytes) {
      const list = found.field("events")
      if (list?.kind !== Kind.array) {
        const isBatch = list !== undefined && list.kind !== Kind.null && found.field("type") === undefined
        if (isBatch) return yield* invalid("events", "Expected array")
        return { event: readAppends(found, bytes) ?? (yield* one.decode(found, bytes)) }
      }
      if (bytes.length > Limits.batchedEventBytes) return { isTooLarge: true }
      if (list.isTooLong) return yield* tooManyEvents
      const events: Array<Batched> = []
      for (const found of list.members as ReadonlyArray<JsonShape.Found>) {
        const appends = readAppends(found, bytes)
        const outcome = appends === undefined
          ? yield* Effect.result(one.decode(found, bytes))
          : Result.succeed(appends)
        if (events.push({ found, outcome }) % Limits.eventsPerTurn === 0) yield* Effect.yieldNow
      }
      return { events }
    })
  }
}

export const revokeTokens = kind(RevokeBody, { to: identity })

export const token = kind(TokenBody, { to: identity })
