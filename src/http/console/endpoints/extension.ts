/** Webhook endpoints in the console. */
import type { ConsoleExtension } from "../ConsoleExtension.ts"

export const extension: ConsoleExtension = {
  operatorItems: [{ to: "/ops/endpoints", label: "Endpoints", icon: "bell" }],
  paths: /^\/ops\/endpoints/,
  load: () => import("./screens.tsx")
}
