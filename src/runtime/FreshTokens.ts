/** Fresh tokens of users, for extensions that create tasks when nobody asks for them. Each that needs them reads these settings. */
import { Effect, Layer, Redacted } from "effect"
import { optional, secrets, setting, tokenSecrets, url, type Values } from "../services/settings/Setting.ts"
import * as UserTokens from "../services/tasks/UserTokens.ts"
import { EngineSettings } from "./Extension.ts"
import * as UndiciTransport from "./node/UndiciTransport.ts"

export const settings = {
  tokenUrl: optional(url, {
    name: "TOKEN_URL",
    unset: "unset; an embedded service with its own key mints tokens",
    meaning:
      "where schedules and bulk reruns get a fresh token of their user: `POST {sub, schedule_id}` or `{sub, bulk_id}` answers `{token}`"
  }),
  tokenUrlTokens: setting(secrets, {
    name: "TOKEN_URL_TOKEN",
    default: "",
    meaning: "list of bearer tokens for `TOKEN_URL`: the first that it does not answer with 401 or 403 is sent",
    secret: tokenSecrets
  })
}

const sourceOf = Effect.fnUntraced(function*({ tokenUrl, tokenUrlTokens }: Values<typeof settings>) {
  if (tokenUrl !== undefined) return yield* UserTokens.fromUrl(tokenUrl, tokenUrlTokens)
  const { mintToken } = yield* EngineSettings
  if (mintToken === undefined) return undefined
  const mint: UserTokens.Source = (sub) => Effect.map(mintToken(sub), Redacted.make)
  return mint
})

/** The connections to `TOKEN_URL` are its own. */
export const layer = (values: Values<typeof settings>) =>
  Layer.unwrap(Effect.map(sourceOf(values), UserTokens.UserTokens.layer)).pipe(
    Layer.provide(Layer.fresh(UndiciTransport.layer))
  )
