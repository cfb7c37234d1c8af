/** The chat bot, and how it joins the service. */
import { Layer } from "effect"
import type { Extension } from "../../../../../../src/runtime/Extension.ts"
import * as FreshTokens from "../../../../../../src/runtime/FreshTokens.ts"
import { optional, secret, type Values } from "../../../../../../src/services/settings/Setting.ts"
import * as Bot from "../../../http/bot/Bot.ts"

export const settings = {
  token: optional(secret, {
    name: "BOT_TOKEN",
    unset: "unset: there is no bot",
    meaning: "the bearer token with which a chat platform calls `POST /bot/messages`"
  })
}

const layerOf = (token: NonNullable<Values<typeof settings>["token"]>, tokens: Values<typeof FreshTokens.settings>) =>
  Bot.layer.pipe(
    Layer.provide([Layer.succeed(Bot.BotSettings, { token }), FreshTokens.layer(tokens)])
  )

export const extension: Extension = {
  settings,
  load: (read) => {
    const { token } = read(settings)
    return { layer: token === undefined ? Layer.empty : layerOf(token, read(FreshTokens.settings)) }
  },
  routes: { routes: [{ method: "POST", path: "/bot/messages" }] }
}
