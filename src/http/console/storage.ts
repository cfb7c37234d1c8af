/** The base of download links. */
import { signal } from "@preact/signals"
import { client } from "./api.ts"

/** The storage's base URL; undefined until it is known. */
export const base = signal<URL | undefined>(undefined)

/** Reads the base URL: the link of a file without a path is the URL with a slash. */
export const loadBase = async () => {
  if (base.value === undefined) base.value = URL.parse(await client.files.url("")) ?? undefined
}
