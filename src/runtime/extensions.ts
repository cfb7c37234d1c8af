/** The extensions of the core, one line each. They are loaded when they are needed: the command line needs only their commands. */
import type { ExtensionModules } from "./Extension.ts"

export const modules: ReadonlyArray<ExtensionModules> = [
  { server: () => import("./extensions/facades/server.ts") },
  { server: () => import("./extensions/openai/server.ts") },
  { server: () => import("./extensions/mcp/server.ts") },
  { server: () => import("./extensions/a2a/server.ts") },
  {
    server: () => import("./extensions/operator/server.ts"),
    commands: () => import("./extensions/operator/commands.ts")
  },
  {
    server: () => import("./extensions/schedules/server.ts"),
    testing: () => import("./extensions/schedules/testing.ts"),
    commands: () => import("./extensions/schedules/commands.ts")
  },
  {
    server: () => import("./extensions/usage/server.ts"),
    testing: () => import("./extensions/usage/testing.ts"),
    commands: () => import("./extensions/usage/commands.ts")
  },
  {
    server: () => import("./extensions/endpoints/server.ts"),
    testing: () => import("./extensions/endpoints/testing.ts"),
    commands: () => import("./extensions/endpoints/commands.ts")
  },
  { server: () => import("./extensions/console/Console.ts") }
]
