/** The OpenAI façade, and how it joins the service. */
import { Effect, Layer } from "effect"
import type { ExtensionRoutes } from "../../../http/ExtensionRoutes.ts"
import { FacadeSettings, settings } from "../../../http/facades/Settings.ts"
import * as Routes from "../../../http/openai/Routes.ts"
import * as Webhook from "../../../http/openai/Webhook.ts"
import * as FacadeLegsSql from "../../../services/facades/FacadeLegsSql.ts"
import type { Extension } from "../../Extension.ts"

const routes: ExtensionRoutes = {
  routes: [
    { method: "POST", path: "/v1/responses" },
    { method: "GET", path: "/v1/responses/:id" },
    { method: "POST", path: "/v1/responses/:id/cancel" },
    { method: "GET", path: "/v1/responses/:id/input_items" },
    { method: "POST", path: "/v1/files" },
    { method: "GET", path: "/v1/files/:id" },
    { method: "GET", path: "/v1/files/:id/content" },
    { method: "GET", path: "/v1/models" },
    { method: "GET", path: "/v1/models/:id" }
  ],
  answersAllMethods: true,
  // The official SDK sends them from a browser.
  corsHeaders: [
    "OpenAI-Beta",
    "OpenAI-Organization",
    "OpenAI-Project",
    "X-Stainless-Arch",
    "X-Stainless-Custom-Poll-Interval",
    "X-Stainless-Helper-Method",
    "X-Stainless-Lang",
    "X-Stainless-OS",
    "X-Stainless-Package-Version",
    "X-Stainless-Poll-Helper",
    "X-Stainless-Retry-Count",
    "X-Stainless-Runtime",
    "X-Stainless-Runtime-Version",
    "X-Stainless-Timeout"
  ]
}

export const extension: Extension = {
  settings: {},
  load: (read) => {
    const found = read(settings)
    return {
      layer: !found.served.has("openai")
        ? Layer.empty
        : Layer.provide(Routes.layer, [FacadeLegsSql.layer, Layer.succeed(FacadeSettings, found)])
    }
  },
  routes,
  callbackFormats: Webhook.makeFormat.pipe(
    Effect.map((format) => ({ [Webhook.name]: format })),
    Effect.provide(FacadeLegsSql.layer)
  )
}
