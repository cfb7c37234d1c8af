/** Usage in the test kit. */
import { Effect, Layer } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { UsageApi, UsageGroup } from "../../../http/usage/UsageApi.ts"
import * as Handlers from "../../../http/usage/UsageHandlers.ts"
import * as UsageLink from "../../../services/usage/UsageLink.ts"
import * as UsageMemory from "../../../services/usage/UsageMemory.ts"
import { turnReport } from "../../../services/usage/UsageReport.ts"
import type { TestExtension } from "../../Extension.ts"

export const extension: TestExtension = {
  layer: HttpApiBuilder.layer(UsageApi).pipe(
    Layer.provide(Handlers.layer),
    Layer.provide(Handlers.UsageReads.layer),
    Layer.provide(UsageMemory.layer)
  ),
  taskLink: Effect.provide(UsageLink.make, UsageMemory.layer),
  routes: { publicGroup: UsageGroup },
  turnReport
}
