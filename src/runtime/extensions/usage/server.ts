/** Usage, and how it joins the service. */
import { Duration, Effect, Layer, Schema } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { readFileSync } from "node:fs"
import { OperatorUsageApi, OperatorUsageGroup } from "../../../http/usage/OperatorUsageApi.ts"
import { UsageApi, UsageGroup } from "../../../http/usage/UsageApi.ts"
import * as Handlers from "../../../http/usage/UsageHandlers.ts"
import { UsageRpc } from "../../../http/usage/UsageRpc.ts"
import { TaskUsageView } from "../../../http/usage/UsageSchemas.ts"
import { duration, optional, parsed, type Values } from "../../../services/settings/Setting.ts"
import { CurrentPrices, Prices } from "../../../services/usage/Prices.ts"
import * as UsageBooking from "../../../services/usage/UsageBooking.ts"
import * as UsageLink from "../../../services/usage/UsageLink.ts"
import { turnReport } from "../../../services/usage/UsageReport.ts"
import * as UsageSql from "../../../services/usage/UsageSql.ts"
import { type Extension, OwnConnections } from "../../Extension.ts"

const decodePrices = Schema.decodeUnknownSync(Schema.fromJsonString(Prices), { errors: "all" })

/** Connections for reads of users and operators. */
const connections = 2

export const settings = {
  retention: duration(Duration.seconds(1), Duration.days(36_500), "must be between 1 second and 36500 days", {
    name: "USAGE_RETENTION",
    default: "400 days",
    meaning: "how long usage by hour is kept, whatever becomes of its tasks"
  }),
  prices: optional(parsed((path) => decodePrices(readFileSync(path, "utf8"))), {
    name: "PRICES_FILE",
    unset: "unset: nothing has a cost",
    meaning:
      "JSON file with what models cost per million tokens: `{\"currency\": \"USD\", \"models\": {\"name\": {\"input\": 2.5, \"output\": 10, \"cached_input\": 1.25}}}`. A change applies to what is used after a restart"
  })
}

const load = ({ prices, retention }: Values<typeof settings>) => {
  const layerPrices = Layer.succeed(CurrentPrices, prices)
  const layerReads = Handlers.UsageReads.layer.pipe(
    Layer.provide(
      Layer.unwrap(Effect.map(OwnConnections, ({ layer }) => Layer.provide(UsageSql.layer, layer(connections))))
    ),
    Layer.provide(layerPrices)
  )
  return {
    layer: Layer.merge(
      HttpApiBuilder.layer(UsageApi).pipe(Layer.provide(Handlers.layer), Layer.provide(layerReads)),
      Layer.provide(UsageBooking.layer(retention), [UsageSql.layer, layerPrices])
    ),
    forOperators: HttpApiBuilder.layer(OperatorUsageApi).pipe(
      Layer.provide(Handlers.layerOperators),
      Layer.provide([layerReads, UsageSql.layer])
    ),
    taskLink: Effect.provide(UsageLink.make, UsageSql.layer),
    // The server finds the handlers in its context by the tags of the calls.
    rpc: Layer.provide(Handlers.layerRpc, layerReads)
  }
}

export const extension: Extension = {
  settings,
  load: (read) => load(read(settings)),
  routes: {
    publicGroup: UsageGroup,
    documented: { group: OperatorUsageGroup },
    screens: "usage",
    auditActions: ["usage_erase"],
    taskField: {
      name: "usage",
      includes: "`usage`: tokens and active seconds; null until an interrupt or the end.",
      schema: TaskUsageView
    },
    rpc: UsageRpc
  },
  tables: UsageSql.tables,
  userData: UsageSql.userData,
  turnReport
}
