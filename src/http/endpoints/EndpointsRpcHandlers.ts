/** Handlers of the group `Endpoints` of the internal interface. */
import { Effect, Stream } from "effect"
import { fromValue, toValue } from "../../domain/json/OpaqueJson.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import { eventId, typeOf } from "../../services/endpoints/Endpoint.ts"
import { Endpoints } from "../../services/endpoints/Endpoints.ts"
import { EndpointsStore } from "../../services/endpoints/EndpointsStore.ts"
import * as RpcRequests from "../handlers/rpc/RpcRequests.ts"
import { EndpointsRpc } from "./EndpointsRpc.ts"
import * as Views from "./EndpointViews.ts"

const { asInvalidRequest, decode, invalid, queryOf, refuseOutage } = RpcRequests

const json = (value: Writable) => toValue(fromValue(value))

const refusedAddress = {
  AddressRefused: ({ message }: { readonly message: string }) => Effect.fail(invalid("url", message))
}

export const layer = EndpointsRpc.toLayer(Effect.gen(function*() {
  const endpoints = yield* Endpoints
  const store = yield* EndpointsStore
  return EndpointsRpc.of({
    "Endpoints.create": Effect.fnUntraced(function*({ endpoint }) {
      const { definition, isDisabled } = yield* decode(Views.create, endpoint)
      return json(Views.withSecret(yield* refuseOutage(endpoints.create(definition, isDisabled))))
    }, Effect.catchTags(refusedAddress)),
    "Endpoints.list": Effect.fnUntraced(function*(paging) {
      const { after, limit } = yield* Effect.mapError(Views.listQuery(queryOf(paging)), asInvalidRequest)
      return json(Views.endpointsPage(yield* refuseOutage(store.list(after, limit + 1)), limit))
    }),
    "Endpoints.get": ({ id }) => refuseOutage(Effect.map(endpoints.get(id), (found) => json(Views.endpoint(found)))),
    "Endpoints.update": Effect.fnUntraced(function*({ body, id }) {
      yield* refuseOutage(endpoints.get(id))
      const { changes, isDisabled } = yield* decode(Views.update, body)
      return json(Views.endpoint(yield* refuseOutage(endpoints.update(id, changes, isDisabled))))
    }, Effect.catchTags(refusedAddress)),
    "Endpoints.delete": ({ id }) => refuseOutage(endpoints.remove(id)),
    "Endpoints.rotateSecret": Effect.fnUntraced(function*({ id, ...body }) {
      yield* refuseOutage(endpoints.get(id))
      return json(Views.withSecret(yield* refuseOutage(endpoints.rotate(id, yield* decode(Views.rotate, body)))))
    }),
    "Endpoints.test": Effect.fnUntraced(function*({ id, ...body }) {
      yield* refuseOutage(endpoints.get(id))
      return json(Views.tested(yield* refuseOutage(endpoints.test(id, yield* decode(Views.test, body)))))
    }),
    "Endpoints.deliveries": Effect.fnUntraced(function*({ id, ...given }) {
      yield* refuseOutage(endpoints.get(id))
      const { after, limit, state } = yield* Effect.mapError(Views.deliveriesQuery(queryOf(given)), asInvalidRequest)
      return json(Views.deliveriesPage(yield* refuseOutage(endpoints.deliveries(id, state, after, limit + 1)), limit))
    }),
    "Endpoints.redeliver": ({ delivery, id }) =>
      refuseOutage(Effect.map(endpoints.redeliver(id, delivery), (found) => json(Views.delivery(found)))),
    "Endpoints.replay": Effect.fnUntraced(function*({ id, ...body }) {
      yield* refuseOutage(endpoints.get(id))
      const replay = yield* decode(Views.replay, body)
      yield* Effect.mapError(Views.checkReplay(replay), asInvalidRequest)
      const { enqueued, left } = yield* refuseOutage(endpoints.replay(id, replay))
      return json({ enqueued, left })
    }),
    "Endpoints.events": ({ after = 0, id }) =>
      Stream.unwrap(refuseOutage(endpoints.events(id, after))).pipe(
        Stream.map(({ body, key, position, status }) => ({ position, id: eventId(key), type: typeOf(status), body }))
      )
  })
}))
