/** Handlers of webhook endpoints, by REST and by RPC. Every change of an operator has a line in the audit, and in the log. */
import { Effect, type Scope, Stream } from "effect"
import { Sse } from "effect/encoding"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { eventId, typeOf } from "../../services/endpoints/Endpoint.ts"
import { Endpoints } from "../../services/endpoints/Endpoints.ts"
import { EndpointsStore, type StreamedEvent } from "../../services/endpoints/EndpointsStore.ts"
import { Conflict, Forbidden, invalid, NotFound, TooManyRequests } from "../contract/Errors.ts"
import type { InvalidRequest } from "../contract/rpc/RpcErrors.ts"
import { type BodyError, BodyReader } from "../handlers/body/BodyReader.ts"
import type { BodyKind } from "../handlers/body/JsonBody.ts"
import { as, refusing, storeErrors } from "../handlers/ErrorResponses.ts"
import * as EventStream from "../handlers/EventStream.ts"
import type { Query } from "../handlers/Query.ts"
import * as RpcRequests from "../handlers/rpc/RpcRequests.ts"
import { audited, type AuditedAction, CurrentOperator, logged, orUnavailable } from "../OperatorRoutes.ts"
import { EndpointsApi } from "./EndpointsApi.ts"
import { base } from "./EndpointSchemas.ts"
import { EndpointsRpc } from "./EndpointsRpc.ts"
import * as Views from "./EndpointViews.ts"

const refused = refusing({
  EndpointNotFound: as(NotFound),
  DeliveryNotFound: as(NotFound),
  EndpointIsSent: as(Conflict),
  TooManyEndpoints: as(Conflict),
  TooManyReaders: as(TooManyRequests)
})
const refusedAddress = {
  AddressRefused: ({ message }: { readonly message: string }) => Effect.fail(invalid("url", message))
}

/** Each is `endpoint_…` in the audit. */
export const actions = ["create", "update", "delete", "rotate", "test", "redeliver", "replay"] as const

interface Action extends AuditedAction {
  readonly action: typeof actions[number]
}

/** A change by REST or by RPC. */
interface Change<E, R> {
  readonly receive: <A>(kind: BodyKind<A>) => Effect.Effect<A, E, R>
  /** Records the change of an operator. `logged` says what was done to which endpoint. */
  readonly record: <A, E2>(
    line: Action,
    change: Effect.Effect<A, E2>,
    logged?: (made: A) => readonly [message: string, endpoint: string]
  ) => Effect.Effect<A, E2 | StoreUnavailable, R>
}

/** The operations of endpoints. 404 has precedence over what is wrong with a body or a query. */
const makeOperations = Effect.gen(function*() {
  const endpoints = yield* Endpoints
  const store = yield* EndpointsStore
  return {
    create: Effect.fnUntraced(function*<E, R>({ receive, record }: Change<E, R>) {
      const { definition, isDisabled } = yield* receive(Views.create)
      const id = yield* endpoints.newId
      return yield* record(
        { action: "create", target: id },
        endpoints.create(id, definition, isDisabled).pipe(Effect.catchTags(refusedAddress)),
        () => ["an operator created a webhook endpoint", id]
      )
    }),
    update: Effect.fnUntraced(function*<E, R>({ receive, record }: Change<E, R>, id: string) {
      yield* endpoints.get(id)
      const { changes, isDisabled } = yield* receive(Views.update)
      const updated = yield* record(
        { action: "update", target: id },
        endpoints.update(id, changes, isDisabled).pipe(Effect.catchTags(refusedAddress)),
        () => ["an operator changed a webhook endpoint", id]
      )
      return Views.endpoint(updated)
    }),
    remove: <E, R>({ record }: Change<E, R>, id: string) =>
      record(
        { action: "delete", target: id },
        endpoints.remove(id),
        () => ["an operator deleted a webhook endpoint", id]
      ),
    rotate: Effect.fnUntraced(function*<E, R>({ receive, record }: Change<E, R>, id: string) {
      yield* endpoints.get(id)
      const keepOldFor = yield* receive(Views.rotate)
      const rotated = yield* record(
        { action: "rotate", target: id },
        endpoints.rotate(id, keepOldFor),
        () => ["an operator rotated the secret of a webhook endpoint", id]
      )
      return Views.withSecret(rotated)
    }),
    test: Effect.fnUntraced(function*<E, R>({ receive, record }: Change<E, R>, id: string) {
      yield* endpoints.get(id)
      const type = yield* receive(Views.test)
      return Views.tested(yield* record({ action: "test", target: id }, endpoints.test(id, type)))
    }),
    redeliver: Effect.fnUntraced(function*<E, R>({ record }: Change<E, R>, id: string, delivery: string) {
      const endpoint = yield* endpoints.get(id)
      const redelivered = yield* record(
        { action: "redeliver", target: id, reason: delivery },
        endpoints.redeliver(id, delivery),
        () => ["an operator redelivered an event", id]
      )
      return Views.delivery(endpoint, redelivered)
    }),
    replay: Effect.fnUntraced(function*<E, R>({ receive, record }: Change<E, R>, id: string) {
      yield* endpoints.get(id)
      const range = yield* receive(Views.replay)
      yield* Views.checkReplay(range)
      return yield* record(
        { action: "replay", target: id },
        endpoints.replay(id, range),
        ({ enqueued }) => [`an operator replayed ${enqueued} events`, id]
      )
    }),
    get: (id: string) => Effect.map(endpoints.get(id), Views.endpoint),
    list: Effect.fnUntraced(function*(query: Query) {
      const { after, limit } = yield* Views.listQuery(query)
      return Views.endpointsPage(yield* store.list(after, limit + 1), limit)
    }),
    deliveries: Effect.fnUntraced(function*(id: string, query: Query) {
      const endpoint = yield* endpoints.get(id)
      const { after, limit, state } = yield* Views.deliveriesQuery(query)
      return Views.deliveriesPage(endpoint, yield* endpoints.deliveries(id, state, after, limit + 1), limit)
    }),
    events: endpoints.events
  }
})

const json = (value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}) =>
  HttpServerResponse.jsonUnsafe(value, { status, headers })

/** The position behind which events are read: `Last-Event-ID`, or 0. */
const positionOf = (given: string | undefined) => {
  if (given === undefined || given === "") return Effect.succeed(0)
  return /^\d{1,15}$/.test(given)
    ? Effect.succeed(Number(given))
    : Effect.fail(invalid("Last-Event-ID", "Expected the id of an event of this stream"))
}

const render = ({ body, position, status }: StreamedEvent) =>
  Sse.encoder.write({ _tag: "Event", id: String(position), event: typeOf(status), data: body })

export const layer = HttpApiBuilder.group(
  EndpointsApi,
  "webhookEndpoints",
  Effect.fn(function*(handlers) {
    const operations = yield* makeOperations
    const { read } = yield* BodyReader
    const query = HttpServerRequest.ParsedSearchParams

    const change = (
      request: HttpServerRequest.HttpServerRequest
    ): Change<BodyError, CurrentOperator | Scope.Scope> => ({
      receive: (kind) => Effect.map(read(kind, request), ({ body }) => body),
      record: (line, change, logs) =>
        Effect.tap(audited({ ...line, action: `endpoint_${line.action}` }, change), (made) => {
          if (logs === undefined) return Effect.void
          const [message, endpoint] = logs(made)
          return logged(message, { endpoint })
        })
    })

    const events = Effect.fnUntraced(function*(id: string, request: HttpServerRequest.HttpServerRequest) {
      const { role } = yield* CurrentOperator
      if (role !== "full") return yield* new Forbidden({ message: "This token may only read." })
      yield* operations.get(id)
      const events = yield* operations.events(id, yield* positionOf(request.headers["last-event-id"]))
      return EventStream.respond(
        request,
        EventStream.begun(EventStream.withComments(Stream.encodeText(Stream.map(events, render))))
      )
    })

    const answer = <A, E, R>(operation: Effect.Effect<A, E, R>, status = 200) =>
      orUnavailable(refused(Effect.map(operation, (view) => json(view, status))))

    return handlers
      .handleRaw(
        "create",
        ({ request }) =>
          orUnavailable(
            refused(Effect.map(operations.create(change(request)), (made) =>
              json(Views.withSecret(made), 201, { location: `${base}/${made.endpoint.id}` })))
          )
      )
      .handleRaw("list", () => answer(Effect.flatMap(query, operations.list)))
      .handleRaw("get", ({ params: { id } }) => answer(operations.get(id)))
      .handleRaw("update", ({ params: { id }, request }) => answer(operations.update(change(request), id)))
      .handleRaw("remove", ({ params: { id }, request }) =>
        orUnavailable(
          refused(Effect.as(operations.remove(change(request), id), HttpServerResponse.empty({ status: 204 })))
        ))
      .handleRaw("rotateSecret", ({ params: { id }, request }) => answer(operations.rotate(change(request), id)))
      // An attempt may take longer than other requests of operators.
      .handleRaw(
        "test",
        ({ params: { id }, request }) =>
          Effect.map(operations.test(change(request), id), (view) => json(view)).pipe(refused, refusing(storeErrors))
      )
      .handleRaw(
        "deliveries",
        ({ params: { id } }) => answer(Effect.flatMap(query, (given) => operations.deliveries(id, given)))
      )
      .handleRaw(
        "redeliver",
        ({ params: { delivery, id }, request }) => answer(operations.redeliver(change(request), id, delivery), 202)
      )
      .handleRaw("replay", ({ params: { id }, request }) => answer(operations.replay(change(request), id), 202))
      .handleRaw("events", ({ params: { id }, request }) => orUnavailable(refused(events(id, request))))
  })
)

/** A change by an internal service. */
const changeOf = (body: unknown): Change<InvalidRequest, never> => ({
  receive: (kind) => RpcRequests.decode(kind, body),
  record: (_line, change) => change
})

export const layerRpc = EndpointsRpc.toLayer(Effect.gen(function*() {
  const operations = yield* makeOperations
  const { answer, queryOf } = RpcRequests
  return EndpointsRpc.of({
    "Endpoints.create": ({ endpoint }) => answer(Effect.map(operations.create(changeOf(endpoint)), Views.withSecret)),
    "Endpoints.list": (paging) => answer(operations.list(queryOf(paging))),
    "Endpoints.get": ({ id }) => answer(operations.get(id)),
    "Endpoints.update": ({ body, id }) => answer(operations.update(changeOf(body), id)),
    "Endpoints.delete": ({ id }) => answer(operations.remove(changeOf({}), id)),
    "Endpoints.rotateSecret": ({ id, ...body }) => answer(operations.rotate(changeOf(body), id)),
    "Endpoints.test": ({ id, ...body }) => answer(operations.test(changeOf(body), id)),
    "Endpoints.deliveries": ({ id, ...given }) => answer(operations.deliveries(id, queryOf(given))),
    "Endpoints.redeliver": ({ delivery, id }) => answer(operations.redeliver(changeOf({}), id, delivery)),
    "Endpoints.replay": ({ id, ...body }) => answer(operations.replay(changeOf(body), id)),
    "Endpoints.events": ({ after = 0, id }) =>
      Stream.unwrap(answer(operations.events(id, after))).pipe(
        Stream.map(({ body, key, position, status }) => ({ position, id: eventId(key), type: typeOf(status), body }))
      )
  })
}))
