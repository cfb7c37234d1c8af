/** The settings of the core that the façade needs. */
import { Context } from "effect"

export class A2aSettings extends Context.Service<A2aSettings, {
  readonly publicUrl: string
  /** A card names the `Host` of a request of this machine, as in a development service without `PUBLIC_URL`. */
  readonly cardsFollowHost: boolean
}>()(
  "async-task-service/http/a2a/Settings/A2aSettings"
) {}
