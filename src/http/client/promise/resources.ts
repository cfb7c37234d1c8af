/** Extensions of the Promise client: a resource by its name, and the types of its options. */
export { SchedulesResource as schedules } from "../../schedules/SchedulesResource.ts"
export type * from "../../schedules/SchedulesResource.ts"
export { UsageResource as usage } from "../../usage/UsageResource.ts"
export type * from "../../usage/UsageResource.ts"
