/** Handlers of the group `webhookEndpoints`. Every change has a line in the audit, and in the log. */
import { Duration, Effect, Stream } from "effect"
import { Sse } from "effect/encoding"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Limits from "../../domain/Limits.ts"
import { typeOf } from "../../services/endpoints/Endpoint.ts"
import { Endpoints } from "../../services/endpoints/Endpoints.ts"
import { EndpointsStore, type StreamedEvent } from "../../services/endpoints/EndpointsStore.ts"
import { Conflict, Forbidden, invalid, NotFound, TooManyRequests } from "../contract/Errors.ts"
import { BodyReader } from "../handlers/body/BodyReader.ts"
import { failWith, storeErrors } from "../handlers/ErrorResponses.ts"
import { audited, CurrentOperator, logged, orUnavailable } from "../OperatorRoutes.ts"
import { EndpointsApi } from "./EndpointsApi.ts"
import { base } from "./EndpointSchemas.ts"
import * as Views from "./EndpointViews.ts"

const ownErrors = { EndpointNotFound: failWith(NotFound) }
const refusedAddress = {
  AddressRefused: ({ message }: { readonly message: string }) => Effect.fail(invalid("url", message))
}

interface One {
  readonly params: { readonly id: string }
  readonly request: HttpServerRequest.HttpServerRequest
}

const log = (message: string, endpoint: string) => logged(message, { endpoint })

const json = (value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}) =>
  HttpServerResponse.jsonUnsafe(value, { status, headers })

const makeChanges = Effect.gen(function*() {
  const endpoints = yield* Endpoints
  const { read } = yield* BodyReader
  return {
    create: Effect.fnUntraced(function*({ request }: Pick<One, "request">) {
      const { body: { definition, isDisabled } } = yield* read(Views.create, request)
      const created = yield* audited({ action: "endpoint_create" }, endpoints.create(definition, isDisabled))
      yield* log("an operator created a webhook endpoint", created.endpoint.id)
      return json(Views.withSecret(created), 201, { location: `${base}/${created.endpoint.id}` })
    }, Effect.catchTags({ ...refusedAddress, TooManyEndpoints: failWith(Conflict) })),
    update: Effect.fnUntraced(function*({ params: { id }, request }: One) {
      yield* endpoints.get(id)
      const { body: { changes, isDisabled } } = yield* read(Views.update, request)
      const endpoint = yield* audited(
        { action: "endpoint_update", target: id },
        endpoints.update(id, changes, isDisabled)
      )
      yield* log("an operator changed a webhook endpoint", id)
      return json(Views.endpoint(endpoint))
    }, Effect.catchTags({ ...ownErrors, ...refusedAddress })),
    remove: Effect.fnUntraced(function*({ params: { id } }: Pick<One, "params">) {
      yield* audited({ action: "endpoint_delete", target: id }, endpoints.remove(id))
      yield* log("an operator deleted a webhook endpoint", id)
      return HttpServerResponse.empty({ status: 204 })
    }, Effect.catchTags(ownErrors)),
    rotate: Effect.fnUntraced(function*({ params: { id }, request }: One) {
      yield* endpoints.get(id)
      const { body: keepOldFor } = yield* read(Views.rotate, request)
      const rotated = yield* audited({ action: "endpoint_rotate", target: id }, endpoints.rotate(id, keepOldFor))
      yield* log("an operator rotated the secret of a webhook endpoint", id)
      return json(Views.withSecret(rotated))
    }, Effect.catchTags(ownErrors)),
    test: Effect.fnUntraced(function*({ params: { id }, request }: One) {
      yield* endpoints.get(id)
      const { body: type } = yield* read(Views.test, request)
      return json(
        Views.tested(yield* audited({ action: "endpoint_test", target: id }, endpoints.test(id, type)))
      )
    }, Effect.catchTags(ownErrors)),
    redeliver: Effect.fnUntraced(function*({ params: { delivery, id } }: {
      readonly params: { readonly id: string; readonly delivery: string }
    }) {
      const found = yield* audited(
        { action: "endpoint_redeliver", target: id, reason: delivery },
        endpoints.redeliver(id, delivery)
      )
      yield* log("an operator redelivered an event", id)
      return json(Views.delivery(found), 202)
    }, Effect.catchTags({ ...ownErrors, DeliveryNotFound: failWith(NotFound) })),
    replay: Effect.fnUntraced(function*({ params: { id }, request }: One) {
      yield* endpoints.get(id)
      const { body } = yield* read(Views.replay, request)
      yield* Views.checkReplay(body)
      const replayed = yield* audited({ action: "endpoint_replay", target: id }, endpoints.replay(id, body))
      yield* log(`an operator replayed ${replayed.enqueued} events`, id)
      return json(replayed, 202)
    }, Effect.catchTags(ownErrors))
  }
})

/** The position behind which events are read: `Last-Event-ID`, or 0. */
const positionOf = (given: string | undefined) => {
  if (given === undefined || given === "") return Effect.succeed(0)
  return /^\d{1,15}$/.test(given)
    ? Effect.succeed(Number(given))
    : Effect.fail(invalid("Last-Event-ID", "Expected the id of an event of this stream"))
}

const reconnectAfter = new Sse.Retry({ duration: Duration.seconds(2), lastEventId: undefined })
const keepAlive = Stream.map(Stream.drop(Stream.tick(Limits.keepAliveInterval), 1), () => ": keep-alive\n\n")
const render = ({ body, position, status }: StreamedEvent) =>
  Sse.encoder.write({ _tag: "Event", id: String(position), event: typeOf(status), data: body })

const makeReads = Effect.gen(function*() {
  const endpoints = yield* Endpoints
  const store = yield* EndpointsStore
  return {
    list: Effect.gen(function*() {
      const { after, limit } = yield* Views.listQuery(yield* HttpServerRequest.ParsedSearchParams)
      return json(Views.endpointsPage(yield* store.list(after, limit + 1), limit))
    }),
    get: ({ params: { id } }: Pick<One, "params">) =>
      Effect.map(endpoints.get(id), (found) => json(Views.endpoint(found))).pipe(Effect.catchTags(ownErrors)),
    deliveries: Effect.fnUntraced(function*({ params: { id } }: Pick<One, "params">) {
      yield* endpoints.get(id)
      const { after, limit, state } = yield* Views.deliveriesQuery(yield* HttpServerRequest.ParsedSearchParams)
      return json(Views.deliveriesPage(yield* endpoints.deliveries(id, state, after, limit + 1), limit))
    }, Effect.catchTags(ownErrors)),
    events: Effect.fnUntraced(
      function*({ params: { id }, request }: One) {
        const { role } = yield* CurrentOperator
        if (role !== "full") return yield* new Forbidden({ message: "This token may only read." })
        yield* endpoints.get(id)
        const events = yield* endpoints.events(id, yield* positionOf(request.headers["last-event-id"]))
        const text = Stream.succeed(Sse.encoder.write(reconnectAfter)).pipe(
          Stream.concat(Stream.map(events, render)),
          Stream.merge(keepAlive, { haltStrategy: "left" }),
          Stream.encodeText
        )
        return HttpServerResponse.stream(request.method === "HEAD" ? Stream.empty : text, {
          contentType: "text/event-stream",
          headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
        })
      },
      Effect.catchTags({
        ...ownErrors,
        EndpointIsSent: failWith(Conflict),
        TooManyReaders: failWith(TooManyRequests)
      })
    )
  }
})

export const layer = HttpApiBuilder.group(
  EndpointsApi,
  "webhookEndpoints",
  Effect.fn(function*(handlers) {
    const reads = yield* makeReads
    const changes = yield* makeChanges
    return handlers
      .handleRaw("create", (given) => orUnavailable(changes.create(given)))
      .handleRaw("list", () => orUnavailable(reads.list))
      .handleRaw("get", (given) => orUnavailable(reads.get(given)))
      .handleRaw("update", (given) => orUnavailable(changes.update(given)))
      .handleRaw("remove", (given) => orUnavailable(changes.remove(given)))
      .handleRaw("rotateSecret", (given) => orUnavailable(changes.rotate(given)))
      // An attempt may take longer than other requests of operators.
      .handleRaw("test", (given) => Effect.catchTags(changes.test(given), storeErrors))
      .handleRaw("deliveries", (given) => orUnavailable(reads.deliveries(given)))
      .handleRaw("redeliver", (given) => orUnavailable(changes.redeliver(given)))
      .handleRaw("replay", (given) => orUnavailable(changes.replay(given)))
      .handleRaw("events", (given) => orUnavailable(reads.events(given)))
  })
)
