/** The MCP façade, and how it joins the service. */
import { Effect, Layer } from "effect"
import type { ExtensionRoutes } from "../../../http/ExtensionRoutes.ts"
import { FacadeSettings, settings as shared } from "../../../http/facades/Settings.ts"
import * as Routes from "../../../http/mcp/Routes.ts"
import { McpSettings, settings } from "../../../http/mcp/Settings.ts"
import { ToolTable } from "../../../http/mcp/Tools.ts"
import * as FacadeLegsSql from "../../../services/facades/FacadeLegsSql.ts"
import { tables, TaskAnswers, userData } from "../../../services/mcp/TaskAnswers.ts"
import { EngineSettings, type Extension } from "../../Extension.ts"

const routes: ExtensionRoutes = {
  routes: [
    { method: "POST", path: "/mcp" },
    { method: "GET", path: "/.well-known/oauth-protected-resource" },
    { method: "GET", path: "/.well-known/oauth-protected-resource/mcp" }
  ],
  answersAllMethods: true,
  // The official SDKs send them from a browser.
  corsHeaders: ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id"]
}

export const extension: Extension = {
  settings,
  load: (read) => {
    const found = read(shared)
    const { audience } = read(settings)
    const layerSettings = Layer.effect(
      McpSettings,
      Effect.map(
        EngineSettings,
        ({ corsOrigins, jwtIssuer, publicUrl }) =>
          McpSettings.of({ audience, corsOrigins, publicUrl, issuer: jwtIssuer })
      )
    )
    return {
      layer: !found.served.has("mcp") ? Layer.empty : Routes.layer.pipe(
        Layer.provide([ToolTable.layer, layerSettings, FacadeLegsSql.layer, TaskAnswers.layerSql]),
        Layer.provide(Layer.succeed(FacadeSettings, found))
      )
    }
  },
  routes,
  tables,
  userData
}
