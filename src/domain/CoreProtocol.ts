/** The protocol between the service and the processing core, in both directions. */
import { Schema } from "effect"
import * as Failure from "./Failure.ts"
import { absentOr, isAtMostCharacters } from "./Fields.ts"
import { fromValue, type OpaqueJson } from "./json/OpaqueJson.ts"
import * as RawJson from "./json/RawJson.ts"
import { readValid } from "./json/Reader.ts"
import type { Found } from "./json/Shape.ts"
import { Kind } from "./json/tables.ts"
import * as Limits from "./Limits.ts"
import * as Silence from "./Silence.ts"
import { RunId, TaskEvent, TaskId, type TaskStatus } from "./Task.ts"
import { RunRequest } from "./TaskRequest.ts"
import { PassedCall, ToolResult } from "./ToolCall.ts"

/** Body of `POST {CORE_URL}/runs`. Idempotent by `run_id`. */
export const StartRun = Schema.Struct({
  task_id: TaskId,
  run_id: RunId,
  ...RunRequest.fields,
  user: Schema.Struct({ sub: Schema.String }),
  user_token: Schema.String,
  deadline_at: Schema.String,
  events_url: Schema.String,
  resume: Schema.NullOr(Schema.Struct({ state: Schema.Json, results: Schema.Array(ToolResult) }))
})
export type StartRun = typeof StartRun.Type

/** The answer of a core to the start of a run. The answer does not accept the run; its first event does. */
export const RunAccepted = Schema.Struct({
  silence_seconds: absentOr(
    Silence.Declared,
    "Declares that the core is idempotent by `run_id` over all its instances. A run that reports nothing for that long while its task is processing is dispatched again with the same `run_id`."
  )
})
export type RunAccepted = typeof RunAccepted.Type

const envelope = {
  task_id: Schema.String.annotate({ description: "The task." }),
  run_id: Schema.String.annotate({
    description: "The run that the event belongs to. Events of a run that is not the task's current one are refused."
  }),
  event_id: Schema.Union([Schema.NonEmptyString.check(isAtMostCharacters(255)), Schema.Int]).annotate({
    expected: "a text of 1 to 255 characters, or an integer",
    description:
      "Identifies the event within its run. A `processing` or `progress` whose id was seen before changes nothing. An integer, up to 2^53 - 1, is the same as its digits."
  })
}

const wholeTurn = RawJson.AnyObject.annotate({ identifier: "Turn" })
const turn = absentOr(wholeTurn, "The turn so far.")
const accepted = absentOr(
  Schema.Boolean,
  "True when the core has sent no `processing` event for this run. The service records that one first, with this event."
)

/** Bytes of UTF-8. */
const byteLengthOf = (text: string): number => {
  let length = text.length
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    // Each half of a surrogate pair has two of its four bytes; a lone one counts as little.
    if (unit > 0x7f) length += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1
  }
  return length
}

const Append = Schema.Struct({
  index: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER - 1 })).annotate({
    description: "Numbers the appends of the run, from 0."
  }),
  // Raw, because a core may cut a character that takes two UTF-16 units: then a surrogate comes alone.
  text: RawJson.described(RawJson.Text, "Added to the live text of the run.")
}).annotate({ identifier: "Append", description: "A part of the text that the run writes." })

/** Whether the texts of appends are within the limit together. A token is longer than its text, by its quotes and escapes. */
const isShort = <A extends { readonly text: string | RawJson.RawJson }>(appends: ReadonlyArray<A>) => {
  const sizeBy = (sizeOf: (text: string | RawJson.RawJson) => number) =>
    appends.reduce((size, { text }) => size + sizeOf(text), 0)
  return sizeBy((text) => text instanceof RawJson.RawJson ? text.bytes.length : 3 * text.length) <=
      Limits.appendBytes ||
    sizeBy((text) => byteLengthOf(RawJson.stringOf(text))) <= Limits.appendBytes
}

const shortTexts = { expected: `at most ${Limits.appendBytes} bytes of text in one event` }

/** One event type, with its name and description in the OpenAPI document. */
const eventOf = <Type extends string, Fields extends Schema.Struct.Fields>(
  type: Type,
  identifier: string,
  description: string,
  fields: Fields
) => Schema.Struct({ ...envelope, type: Schema.Literal(type), ...fields }).annotate({ identifier, description })

export const FailureCode = Schema.Literals(["assistant_not_found", "payment_required", "token_revoked", "internal"])
export type FailureCode = typeof FailureCode.Type

/** An event of a run. */
export const CoreEvent = Schema.Union([
  eventOf(
    "processing",
    "ProcessingEvent",
    "The core accepts the run and works on it. A run has to be accepted within 30 s of its dispatch (`ACCEPTANCE_TIMEOUT`), by this or a later event.",
    {}
  ),
  eventOf(
    "progress",
    "ProgressEvent",
    "A partial turn, which replaces the last one, or text that is added to the live text of the run and not stored. Without either it is a sign of life and changes nothing else.",
    {
      turn,
      append: absentOr(
        Append.check(Schema.makeFilter((append) => isShort([append]), shortTexts)),
        "Text to add. The answer has the index that comes `next`."
      ),
      appends: absentOr(
        Schema.Array(Append).check(Schema.isMaxLength(Limits.appends)).check(Schema.makeFilter(isShort, shortTexts)),
        "Several, in the order of their indexes."
      ),
      next_append: absentOr(
        Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
        "With `turn`: the index after the last append that the turn has."
      ),
      accepted
    }
  ),
  eventOf("interrupted", "InterruptedEvent", "The model called client tools.", {
    tool_calls: Schema.NonEmptyArray(PassedCall).annotate({ description: "The calls, at least one." }),
    state: Schema.optional(RawJson.Any).annotate({
      description: "Opaque state of the core, sent back when the task resumes."
    }),
    turn,
    accepted
  }),
  eventOf("completed", "CompletedEvent", "The run ended well.", { turn: wholeTurn, accepted }),
  eventOf("failed", "FailedEvent", "The run failed.", {
    code: FailureCode.annotate({ description: "The cause of the failure." }),
    message: absentOr(Schema.String, "A reason that is safe to show."),
    turn,
    accepted
  })
]).annotate({
  identifier: "CoreEvent",
  description: "An event that the processing core reports about a run.",
  discriminator: "type",
  expected: "one of processing, progress, interrupted, completed, failed"
})
export type CoreEvent = typeof CoreEvent.Type

const CoreEvents = Schema.Struct({
  events: Schema.Array(CoreEvent).check(Schema.isMaxLength(Limits.batchedEvents)).annotate({
    description: "Events of any runs. Those of one run take effect in their order."
  })
}).annotate({ identifier: "CoreEvents", description: "Several events in one request." })

/** Body of `POST /internal/core/events`. */
export const CoreReports = Schema.Union([CoreEvent, CoreEvents])

/** The fixed message of the code. For `internal`, the core's own message, which it marks as safe to show, wins. */
const errorOf = (code: FailureCode, message: string | null | undefined): string => {
  switch (code) {
    case "assistant_not_found":
      return Failure.assistantNotAvailable
    case "payment_required":
      return Failure.insufficientBalance
    case "token_revoked":
      return Failure.tokenRevoked
    case "internal":
      return message || Failure.processingFailed
  }
}

/** A core event without the ids. */
export type Unaddressed<Event = CoreEvent> = Event extends unknown ? Omit<Event, keyof typeof envelope> : never

/** Reads what an extension wants of a turn, as JSON. */
type ReadReport = (turn: OpaqueJson) => string | null

/** Translates an event of the core into an event of the task. */
const toTaskEvent = (event: Unaddressed, readReport: ReadReport): TaskEvent => {
  const given = "turn" in event && event.turn ? fromValue(event.turn) : null
  const report = given === null ? null : readReport(given)
  switch (event.type) {
    case "processing":
      return TaskEvent.cases.Accepted.make({})
    case "progress":
      return given === null
        ? TaskEvent.cases.Accepted.make({})
        : TaskEvent.cases.Progressed.make({ turn: given, report })
    case "interrupted":
      return TaskEvent.cases.Interrupted.make({
        toolCalls: fromValue(event.tool_calls),
        state: event.state === undefined ? null : fromValue(event.state),
        turn: given,
        report
      })
    case "completed":
      return TaskEvent.cases.Completed.make({ turn: given ?? fromValue(event.turn), report })
    case "failed":
      return TaskEvent.cases.Failed.make({
        error: errorOf(event.code, event.message),
        turn: given,
        report
      })
  }
}

/** A core event with what it means. */
export interface CoreReport {
  readonly task_id: string
  readonly run_id: string
  readonly event_id: string
  readonly event: TaskEvent
  /** Whether the acceptance of the run is recorded first. */
  readonly recordsAcceptance: boolean
  /** Text that is not stored. */
  readonly appends?: ReadonlyArray<{ readonly index: number; readonly text: string }>
  /** The index after the last append that the turn has. */
  readonly nextAppend?: number
}

/** The outcome of a report, as the core gets it. */
export interface Reported {
  readonly status: TaskStatus
  /** False when nothing changed. */
  readonly applied: boolean
  /** After appends, the index of the one that is expected; null if it is not known. */
  readonly next?: number | null
}

const appendsOf = (event: CoreEvent): Pick<CoreReport, "appends" | "nextAppend"> => {
  if (event.type !== "progress") return {}
  const { append, appends, next_append } = event
  const given = [...append == null ? [] : [append], ...appends ?? []]
  return {
    ...(given.length === 0 ? {} : {
      appends: given.map(({ index, text }) => ({ index, text: RawJson.stringOf(text) }))
    }),
    ...(next_append == null || event.turn == null ? {} : { nextAppend: next_append })
  }
}

export const toReport = (reported: CoreEvent, readReport: ReadReport = () => null): CoreReport => {
  const event = toTaskEvent(reported, readReport)
  return {
    task_id: reported.task_id,
    run_id: reported.run_id,
    event_id: String(reported.event_id),
    event,
    recordsAcceptance: event._tag !== "Accepted" && "accepted" in reported && reported.accepted === true,
    ...appendsOf(reported)
  }
}

const appendFields: ReadonlySet<string> = new Set(["task_id", "run_id", "event_id", "type", "append", "appends"])
const isPlain = (text: string | undefined): text is string => text !== undefined && /^[!-~]{1,255}$/.test(text)
const sign = TaskEvent.cases.Accepted.make({})

/**
 * An event that only adds text, read without its schema, which takes three times as long: cores report many. Undefined if it may be another
 * event, or is perhaps invalid.
 */
export const readAppends = (found: Found, bytes: Uint8Array): CoreReport | undefined => {
  const textOf = (name: string) => found.field(name)?.text
  const [task_id, run_id, event_id] = [textOf("task_id"), textOf("run_id"), textOf("event_id")]
  const { members, shape: { names } } = found
  const isOther = members.some((member, index) => member !== undefined && !appendFields.has(names[index]!))
  if (textOf("type") !== "progress" || isOther || !isPlain(task_id) || !isPlain(run_id) || !isPlain(event_id)) {
    return undefined
  }
  const [append, list] = [found.field("append"), found.field("appends")]
  if (list !== undefined && (list.kind !== Kind.array || list.isTooLong)) return undefined
  const appends: Array<{ readonly index: number; readonly text: string }> = []
  let size = 0
  for (const one of [...append === undefined ? [] : [append], ...list?.members ?? []]) {
    const [index, text] = [one?.field("index"), one?.field("text")]
    if (index?.kind !== Kind.number || text?.kind !== Kind.string) return undefined
    const number = Number(readValid(bytes, index.start))
    size += text.end - text.start
    if (!Number.isInteger(number) || number < 0 || number >= Number.MAX_SAFE_INTEGER || size > Limits.appendBytes) {
      return undefined
    }
    appends.push({
      index: number,
      text: RawJson.stringOf(new RawJson.RawJson(Kind.string, bytes, text.start, text.end))
    })
  }
  return appends.length === 0
    ? undefined
    : { task_id, run_id, event_id, event: sign, recordsAcceptance: false, appends }
}

const finalTypes: ReadonlySet<string> = new Set(["interrupted", "completed", "failed"])

/** Whether an event of this type is the last one of its run. */
export const isFinal = (type: string | undefined): boolean => type !== undefined && finalTypes.has(type)

/** The fields of an event that is refused, as far as they are known. */
export interface RefusedEvent {
  readonly task_id: string | undefined
  readonly run_id: string | undefined
  readonly type: string | undefined
}

/** The failure of the task whose run ended with an event that is refused; undefined if it is not known, or goes on. */
export const toFailure = ({ run_id, task_id, type }: RefusedEvent, error: string): CoreReport | undefined =>
  task_id === undefined || run_id === undefined || !isFinal(type) ? undefined : {
    task_id,
    run_id,
    event_id: "",
    event: TaskEvent.cases.Failed.make({ error, turn: null }),
    recordsAcceptance: false
  }
