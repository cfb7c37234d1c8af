/** The extensions with their routes and settings, for processes that serve requests. */
import { modules } from "./extensions.ts"

export const extensions = await Promise.all(
  modules.map(({ server }) => server().then(({ extension }) => extension))
)

/** The tables of the extensions. */
export const extensionTables = extensions.flatMap(({ tables }) => tables ?? [])
