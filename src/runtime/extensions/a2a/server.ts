/** The A2A façade, and how it joins the service. */
import { Effect, Layer } from "effect"
import * as Routes from "../../../http/a2a/Routes.ts"
import { A2aSettings } from "../../../http/a2a/Settings.ts"
import type { ExtensionRoutes } from "../../../http/ExtensionRoutes.ts"
import { FacadeSettings, settings } from "../../../http/facades/Settings.ts"
import { Contexts, tables, userData } from "../../../services/a2a/Contexts.ts"
import { EngineSettings, type Extension } from "../../Extension.ts"

const routes: ExtensionRoutes = {
  routes: [
    { method: "POST", path: "/a2a" },
    { method: "POST", path: "/a2a/:model" },
    { method: "GET", path: "/a2a/:model/.well-known/agent-card.json" },
    { method: "GET", path: "/.well-known/agent-card.json" }
  ],
  answersAllMethods: true,
  // The official SDKs send them from a browser.
  corsHeaders: ["A2A-Version", "A2A-Extensions", "X-A2A-Extensions"]
}

const layerSettings = Layer.effect(
  A2aSettings,
  Effect.map(
    EngineSettings,
    ({ hasPublicUrl, isProduction, publicUrl }) =>
      A2aSettings.of({ publicUrl, cardsFollowHost: !isProduction && !hasPublicUrl })
  )
)

export const extension: Extension = {
  settings: {},
  load: (read) => {
    const found = read(settings)
    return {
      layer: !found.served.has("a2a") ? Layer.empty : Routes.layer.pipe(
        Layer.provide([layerSettings, Contexts.layerSql, Layer.succeed(FacadeSettings, found)])
      )
    }
  },
  routes,
  tables,
  userData
}
