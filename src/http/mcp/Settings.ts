/** The settings of the façade. */
import { Config, Context, Result } from "effect"
import * as Setting from "../../services/settings/Setting.ts"
import * as Facades from "../facades/Settings.ts"

const audience = Setting.optional(Config.String, {
  name: "MCP_AUDIENCE",
  unset: "any; must be set in production if `FACADES` has `mcp`",
  meaning:
    "audience that tokens must have at `/mcp`, in addition to `JWT_AUDIENCE`: MCP forbids a server to accept tokens for another one. With OAuth it is `PUBLIC_URL/mcp`"
})

const serves = (env: Setting.Environment) =>
  Result.match(Facades.settings.served.read(env), { onSuccess: (names) => names.has("mcp"), onFailure: () => false })

export const settings = {
  audience: {
    ...audience,
    read: (env: Setting.Environment) =>
      Setting.isProduction(env) && env["MCP_AUDIENCE"] === undefined && serves(env)
        ? Result.fail("must be set, because FACADES has mcp: the audience of tokens for this server")
        : audience.read(env)
  }
}

export class McpSettings extends Context.Service<McpSettings, {
  /** The audience that tokens must have; undefined accepts any. */
  readonly audience: string | undefined
  readonly publicUrl: string
  /** The issuer of tokens, which is the authorization server; undefined when it is not known. */
  readonly issuer: string | undefined
  /** The origins of other web pages. */
  readonly corsOrigins: ReadonlyArray<string> | "*"
}>()("async-task-service/http/mcp/Settings/McpSettings") {}
