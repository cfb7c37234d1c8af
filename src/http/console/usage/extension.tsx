/** Usage in the console. */
import { Fact } from "../components/Basics.tsx"
import type { ConsoleExtension } from "../ConsoleExtension.ts"
import { money } from "./money.ts"

export const extension: ConsoleExtension = {
  items: [{ to: "/usage", label: "Usage", icon: "usage" }],
  operatorItems: [{ to: "/ops/usage", label: "Usage", icon: "usage" }],
  paths: /^\/(ops\/)?usage/,
  load: () => import("./screens.tsx"),
  ofTask: {
    include: "usage",
    Facts: ({ task: { usage } }) =>
      usage == null || usage.source === "none" ? null : (
        <Fact term="Tokens">
          {usage.input_tokens.toLocaleString("en")} in, {usage.output_tokens.toLocaleString("en")} out
          {usage.cost === null ? "" : `, cost ${money(usage.cost)}`}
        </Fact>
      )
  }
}
