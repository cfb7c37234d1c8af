/** Usage in the console. */
import { useEffect } from "preact/hooks"
import type { Task } from "../../client/promise/Types.ts"
import { Fact } from "../components/Basics.tsx"
import type { ConsoleExtension } from "../ConsoleExtension.ts"
import { currency, loadCurrency } from "./currency.ts"
import { money } from "./money.ts"

const Facts = ({ task: { usage } }: { readonly task: Task }) => {
  const hasCost = usage?.cost != null
  useEffect(() => {
    if (hasCost) void loadCurrency()
  }, [hasCost])
  return usage == null || usage.source === "none" ? null : (
    <Fact term="Tokens">
      {usage.input_tokens.toLocaleString("en")} in, {usage.output_tokens.toLocaleString("en")} out
      {usage.cost === null ? "" : `, cost ${money(usage.cost)} ${currency.value}`}
    </Fact>
  )
}

export const extension: ConsoleExtension = {
  items: [{ to: "/usage", label: "Usage", icon: "usage" }],
  operatorItems: [{ to: "/ops/usage", label: "Usage", icon: "usage" }],
  paths: /^\/(ops\/)?usage/,
  load: () => import("./screens.tsx"),
  ofTask: { include: "usage", Facts }
}
