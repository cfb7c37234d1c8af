/** The assistants that the backend lists for the user, and those that the user asked last. */
import { signal } from "@preact/signals"
import { fetchAsUser } from "./api.ts"
import { isFields, listField, parse, textField } from "./json.ts"
import * as preferences from "./preferences.ts"

export interface Assistant {
  /** As it is typed. */
  readonly id: string
  readonly name: string
  readonly description: string
}

/** Undefined until the service has answered. */
export const listed = signal<ReadonlyArray<Assistant> | undefined>(undefined)

const maxText = 120

export const load = async () => {
  try {
    const response = await fetchAsUser("/console/assistants.json")
    const all = response.ok ? listField(parse(await response.text())?.value, "data").filter(isFields) : []
    listed.value = all.map((each) => ({
      id: String(each["id"]),
      name: textField(each, "name")?.slice(0, maxText) ?? "",
      description: textField(each, "description")?.slice(0, maxText) ?? ""
    }))
  } catch {
    listed.value ??= []
  }
}

/** The name that the backend gives an assistant, or its number. */
export const nameOf = (id: number): string =>
  listed.value?.find((each) => each.id === String(id))?.name || `assistant ${id}`

const kept = "assistant"
const maxRecent = 5

/** The ids that were asked last, the newest first. */
export const recent = (): ReadonlyArray<string> =>
  (preferences.read(preferences.local, kept) ?? "").split(",").filter((id) => id !== "")

export const remember = (id: string) => {
  const others = recent().filter((each) => each !== id)
  preferences.write(preferences.local, kept, [id, ...others].slice(0, maxRecent).join())
}
