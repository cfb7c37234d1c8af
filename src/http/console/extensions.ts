/** What extensions add to the console, one line each. The names are those by which the service says that it has them. */
export { extension as endpoints } from "./endpoints/extension.ts"
export { extension as schedules } from "./schedules/extension.ts"
export { extension as usage } from "./usage/extension.tsx"
