/** What operators have put aside for a day, for all of them: causes of failures, and alerts that have ended. */
import { signal } from "@preact/signals"
import { get, put } from "./operator.ts"
import type { Silences } from "./operatorTypes.ts"

type Kind = Silences["data"][number]["kind"]

const known = signal<Silences["data"]>([])

/** Read with each screen that shows some of them. */
export const load = async (signal?: AbortSignal) => {
  known.value = (await get<Silences>("/silences", signal)).data
}

export const find = (kind: Kind, key: string) => known.value.find((each) => each.kind === kind && each.key === key)

/** For a day, or no longer. */
export const set = async (kind: Kind, key: string, isSilent: boolean) => {
  await put("/silences", { kind, key, hours: isSilent ? 24 : null })
  await load()
}
