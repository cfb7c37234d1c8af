/** The extensions that the service has. */
import { config } from "./config.ts"
import type { ConsoleExtension } from "./ConsoleExtension.ts"
import * as all from "./extensions.ts"

/** What extensions add, whether or not the service has them. */
export const extensions = Object.entries<ConsoleExtension>(all).map(([name, extension]) => ({ name, ...extension }))

export const isServed = (name: string) => config.value.extensions.includes(name)

/** What the extensions of the service add. */
export const served = () => extensions.filter(({ name }) => isServed(name))
