/** The currency of costs, which a task does not say. */
import { signal } from "@preact/signals"
import { client } from "../api.ts"

/** That of costs; empty until it is known. */
export const currency = signal("")

export const loadCurrency = async () => {
  if (currency.value !== "") return
  const { meta } = await client.usage.get({ step: "total" }).catch(() => ({ meta: undefined }))
  currency.value = meta?.currency ?? ""
}
