/** What each program finds out, and prints as JSON. */
export interface Found {
  /** The answer to `question`. */
  readonly text: string
  /** The same as an object of a schema. */
  readonly object: unknown
  /** The answer of a model that called the tool `weather`. */
  readonly called: string
}

export const baseURL = `${process.env["SERVICE_URL"]}/v1`
export const apiKey = process.env["TOKEN"] ?? ""

export const question = "What is 6 * 7?"
export const request = "call weather"
export const weather = ({ city }: { readonly city: string }) => `clear in ${city}`

/** A picture of eight bytes. */
export const image = "data:image/png;base64,iVBORw0KGgo="

export const print = (found: Found & { readonly [more: string]: unknown }) => console.log(JSON.stringify(found))
