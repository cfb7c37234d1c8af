/** The currency of costs, which a task does not say. */
import { signal } from "@preact/signals"

/** That of costs; empty until it is known. */
export const currency = signal("")

export const loadCurrency = async () => {
  if (currency.value !== "") return
  // The calls list the extensions, of which this is a part.
  const { client } = await import("../api.ts")
  const { meta } = await client.usage.get({ step: "total" }).catch(() => ({ meta: undefined }))
  currency.value = meta?.currency ?? ""
}
