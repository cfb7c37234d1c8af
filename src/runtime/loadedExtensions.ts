/** The extensions with their routes and settings, for processes that serve requests. */
import { modules } from "./extensions.ts"

export const extensions = await Promise.all(
  modules.map(({ server }) => server().then(({ extension }) => extension))
)

export const extensionTables = extensions.flatMap(({ tables }) => tables ?? [])
