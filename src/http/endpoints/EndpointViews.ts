/** Webhook endpoints and their deliveries as JSON, and what requests about them mean. */
import { Effect, Redacted, Struct } from "effect"
import * as Metadata from "../../domain/Metadata.ts"
import { format, formatOrNull, parse, Timestamp } from "../../domain/Timestamp.ts"
import {
  defaults,
  type Definition,
  type Endpoint,
  eventId,
  isEndpointId,
  limits,
  type LoggedDelivery,
  parseEventId,
  typeOf
} from "../../services/endpoints/Endpoint.ts"
import type { Tested, WithSecret } from "../../services/endpoints/Endpoints.ts"
import type { Position, Replay } from "../../services/endpoints/EndpointsStore.ts"
import { invalid, type ValidationFailed } from "../contract/Errors.ts"
import { kind } from "../handlers/body/JsonBody.ts"
import { view as viewOfDelivery } from "../handlers/Deliveries.ts"
import * as Parameters from "../Parameters.ts"
import * as Schemas from "./EndpointSchemas.ts"

/** The fields of the definition that a body has; null stands for the default. */
const given = (body: Schemas.UpdateEndpoint): Partial<Definition> => {
  const fields = {
    url: body.url ? new URL(body.url).href : body.url,
    description: body.description,
    events: body.events,
    assistantIds: body.assistant_ids,
    metadata: body.metadata === undefined ? undefined : Metadata.orNull(body.metadata),
    format: body.format
  }
  const names = Struct.keys(fields).filter((name) => fields[name] !== undefined)
  return Object.fromEntries(names.map((name) => [name, fields[name] ?? defaults[name]]))
}

const maxBytes = limits.request

export const create = kind(Schemas.CreateEndpoint, {
  maxBytes,
  to: (body) => ({ definition: { ...defaults, ...given(body) }, isDisabled: body.disabled ?? false })
})

export const update = kind(Schemas.UpdateEndpoint, {
  maxBytes,
  to: (body) => ({
    changes: given(body),
    isDisabled: body.disabled ?? undefined
  })
})

export const rotate = kind(Schemas.RotateSecret, {
  maxBytes,
  whenEmpty: {},
  to: ({ keep_old_for }) => keep_old_for ?? limits.keepOld.default
})

export const test = kind(Schemas.TestEndpoint, {
  maxBytes,
  whenEmpty: {},
  to: ({ event }) => event ?? "task.completed"
})

export const replay = kind(Schemas.ReplayEndpoint, {
  maxBytes,
  to: ({ failed_only, from, to }): Replay => ({
    from: parse(from) ?? Timestamp.make(0),
    to: parse(to) ?? Timestamp.make(0),
    failedOnly: failed_only ?? false
  })
})

export const checkReplay = ({ from, to }: Replay): Effect.Effect<void, ValidationFailed> =>
  from <= to ? Effect.void : Effect.fail(invalid("from", "Must not be later than to"))

type Query = Readonly<Record<string, unknown>>

export const listQuery = Effect.fnUntraced(function*(query: Query) {
  const { cursor, limit } = yield* Parameters.decode(Schemas.parameters.list, query)
  return { after: yield* Parameters.positionOf("endpoints", isEndpointId, cursor), limit }
})

export const deliveriesQuery = Effect.fnUntraced(function*(query: Query) {
  const { cursor, limit, state } = yield* Parameters.decode(Schemas.parameters.deliveries, query)
  const position = yield* Parameters.positionOf("deliveries", (id) => parseEventId(id) !== undefined, cursor)
  const key = position === null ? undefined : parseEventId(position.id)
  const after: Position | null = position === null || key === undefined ? null : { at: position.at, ...key }
  return { state, after, limit }
})

/** Without the password: a read token shows it. */
const shownUrl = (url: string | null) => {
  if (url === null) return null
  const shown = new URL(url)
  if (shown.password !== "") shown.password = "***"
  return shown.href
}

export const endpoint = (found: Endpoint) => ({
  id: found.id,
  url: shownUrl(found.url),
  description: found.description,
  events: found.events,
  assistant_ids: found.assistantIds,
  metadata: found.metadata,
  format: found.format,
  disabled: found.disabledAt !== null,
  disabled_reason: found.disabledReason,
  disabled_at: formatOrNull(found.disabledAt),
  failing_since: formatOrNull(found.failingSince),
  last_success_at: formatOrNull(found.succeededAt),
  old_secret_until: formatOrNull(found.oldSecretUntil),
  created_at: format(found.createdAt),
  updated_at: format(found.updatedAt)
})

export const withSecret = ({ endpoint: found, secret }: WithSecret) => ({
  ...endpoint(found),
  secret: Redacted.value(secret)
})

/** An endpoint that is disabled or read is sent nothing: no attempt is planned. */
export const delivery = ({ disabledAt, url }: Endpoint, { nextAttemptAt, ...found }: LoggedDelivery) => ({
  ...viewOfDelivery({
    ...found,
    nextAttemptAt: url === null || disabledAt !== null ? null : nextAttemptAt,
    origin: ""
  }),
  id: eventId(found),
  type: typeOf(found.status),
  task_uuid: found.taskId,
  dropped: found.dropped
})

/** One more row than the page has shows whether another follows. */
const page = <Row, View>(
  order: string,
  rows: ReadonlyArray<Row>,
  limit: number,
  view: (row: Row) => View,
  position: (row: Row) => Parameters.Position
) => {
  const last = rows.length > limit ? rows[limit - 1] : undefined
  return {
    data: rows.slice(0, limit).map(view),
    next: Parameters.cursorOf(order, last === undefined ? null : position(last))
  }
}

export const endpointsPage = (rows: ReadonlyArray<Endpoint>, limit: number) =>
  page("endpoints", rows, limit, endpoint, ({ createdAt, id }) => ({ at: createdAt, id }))

export const deliveriesPage = (endpoint: Endpoint, rows: ReadonlyArray<LoggedDelivery>, limit: number) =>
  page("deliveries", rows, limit, (row) => delivery(endpoint, row), (row) => ({ at: row.createdAt, id: eventId(row) }))

export const tested = ({ attempt, key, type }: Tested) => ({
  id: eventId(key),
  type,
  number: attempt?.number ?? 0,
  started_at: attempt === null ? null : format(attempt.startedAt),
  duration_ms: attempt?.duration ?? null,
  response_status: attempt?.responseStatus ?? null,
  error: attempt?.error ?? null
})
