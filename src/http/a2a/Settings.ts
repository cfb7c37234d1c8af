/** The settings of the core that the façade needs. */
import { Context } from "effect"

export class A2aSettings extends Context.Service<A2aSettings, { readonly publicUrl: string }>()(
  "async-task-service/http/a2a/Settings/A2aSettings"
) {}
