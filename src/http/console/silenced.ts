/** What an operator does not want to see for a day, in this browser: causes of failures, and alerts that have ended. */
import { isFields, parse } from "./json.ts"
import * as preferences from "./preferences.ts"

const name = "silenced"
/** Milliseconds. */
const keptFor = 86_400_000
const maxKept = 200

const read = (): ReadonlyArray<readonly [key: string, until: number]> => {
  const kept = parse(preferences.read(preferences.local, name) ?? "")?.value
  return isFields(kept)
    ? Object.entries(kept).flatMap(([key, until]) =>
      typeof until === "number" && until > Date.now() ? [[key, until] as const] : []
    )
    : []
}

export const has = (key: string): boolean => read().some(([known]) => known === key)

export const toggle = (key: string) => {
  const others = read().filter(([known]) => known !== key)
  const next = has(key) ? others : [...others, [key, Date.now() + keptFor] as const]
  preferences.write(preferences.local, name, JSON.stringify(Object.fromEntries(next.slice(-maxKept))))
}
