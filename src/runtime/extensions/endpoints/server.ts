/** Webhook endpoints, and how they join the service. */
import { Duration, Effect, Layer } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { EndpointsApi, EndpointsGroup, errorCodes } from "../../../http/endpoints/EndpointsApi.ts"
import { base } from "../../../http/endpoints/EndpointSchemas.ts"
import * as Handlers from "../../../http/endpoints/EndpointsHandlers.ts"
import { EndpointsRpc } from "../../../http/endpoints/EndpointsRpc.ts"
import { EndpointOutbox } from "../../../services/endpoints/EndpointOutbox.ts"
import { Endpoints } from "../../../services/endpoints/Endpoints.ts"
import * as EndpointsSql from "../../../services/endpoints/EndpointsSql.ts"
import * as EndpointTables from "../../../services/endpoints/EndpointTables.ts"
import { duration, integer, type Values } from "../../../services/settings/Setting.ts"
import { EngineSettings, type Extension } from "../../Extension.ts"

export const settings = {
  retention: duration(Duration.seconds(1), Duration.days(3650), "must be between 1 second and 3650 days", {
    name: "WEBHOOK_ENDPOINT_RETENTION",
    default: "30 days",
    meaning: "how long the log of webhook endpoints is kept, with the bodies that can be sent again"
  }),
  backlog: integer(1, Number.MAX_SAFE_INTEGER, {
    name: "WEBHOOK_ENDPOINT_BACKLOG",
    default: "10737418240",
    meaning: "bytes of bodies that may be pending for webhook endpoints; beyond them the oldest deliveries are given up"
  })
}

const load = (values: Values<typeof settings>) => {
  const services = Layer.unwrap(Effect.map(EngineSettings, ({ publicUrl }) =>
    Endpoints.layer.pipe(
      Layer.provide(EndpointOutbox.layer({ source: publicUrl, upkeepInterval: Duration.minutes(1), ...values })),
      Layer.provideMerge(EndpointsSql.layer)
    )))
  return {
    layer: Layer.empty,
    forOperators: HttpApiBuilder.layer(EndpointsApi).pipe(Layer.provide(Handlers.layer), Layer.provide(services)),
    // The server finds the handlers in its context by the tags of the calls.
    rpc: Layer.provide(Handlers.layerRpc, services)
  }
}

export const extension: Extension = {
  settings,
  load: (read) => load(read(settings)),
  routes: {
    errorCodes,
    // Browsers have the cookie of an operator's session.
    sameOrigin: [base],
    documented: { group: EndpointsGroup },
    screens: "endpoints",
    auditActions: Handlers.actions.map((name) => `endpoint_${name}`),
    rpc: EndpointsRpc
  },
  tables: EndpointTables.tables,
  userData: EndpointTables.userData
}
