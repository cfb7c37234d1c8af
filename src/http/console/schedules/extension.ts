/** Schedules in the console. */
import type { ConsoleExtension } from "../ConsoleExtension.ts"

export const extension: ConsoleExtension = {
  items: [{ to: "/schedules", label: "Schedules", icon: "pending" }],
  operatorItems: [{ to: "/ops/schedules", label: "Schedules", icon: "again" }],
  paths: /^\/(ops\/)?schedules/,
  load: () => import("./screens.tsx")
}
