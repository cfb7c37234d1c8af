/** Webhook endpoints in the test kit: in memory, sent by its clock, for callers with the internal token. */
import { Duration, Effect, Layer } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { InternalAuthorization } from "../../../http/contract/Middleware.ts"
import { EndpointsApi, EndpointsGroup } from "../../../http/endpoints/EndpointsApi.ts"
import * as Handlers from "../../../http/endpoints/EndpointsHandlers.ts"
import { CurrentOperator, OperatorAuthorization } from "../../../http/OperatorRoutes.ts"
import { EndpointOutbox } from "../../../services/endpoints/EndpointOutbox.ts"
import { Endpoints } from "../../../services/endpoints/Endpoints.ts"
import * as EndpointsMemory from "../../../services/endpoints/EndpointsMemory.ts"
import type { TestExtension } from "../../Extension.ts"

const layerOperators = Layer.effect(
  OperatorAuthorization,
  Effect.map(InternalAuthorization, ({ internalToken }) =>
    OperatorAuthorization.of({
      operatorToken: (handler, options) =>
        internalToken(
          Effect.provideService(handler, CurrentOperator, {
            role: "full",
            token: "internal",
            name: "token-1",
            audited: (_, change) => change
          }),
          options
        )
    }))
)

const options = {
  source: "http://service.test",
  retention: Duration.days(30),
  backlog: Number.MAX_SAFE_INTEGER,
  upkeepInterval: Duration.days(2)
}

export const extension: TestExtension = {
  layer: HttpApiBuilder.layer(EndpointsApi).pipe(
    Layer.provide(Handlers.layer),
    Layer.provide(layerOperators),
    Layer.provide(Endpoints.layer),
    Layer.provide(EndpointOutbox.layer(options)),
    Layer.provide(EndpointsMemory.layer)
  ),
  routes: { documented: { group: EndpointsGroup } }
}
