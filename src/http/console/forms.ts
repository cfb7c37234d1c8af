/** Parts that the forms of tasks and of schedules share. */
import { useLayoutEffect, useRef, useState } from "preact/hooks"
import type { InputItem } from "../client/promise/Types.ts"

export type FieldErrors<Name extends string> = Readonly<Partial<Record<Name, string>>>

/** A form whose fields are empty. */
export const formWith = <Name extends string>(names: ReadonlyArray<Name>) =>
  // The entries have each name.
  Object.fromEntries(names.map((name) => [name, ""])) as Readonly<Record<Name, string>>

/** Undefined when the text is no whole number. */
export const integerIn = (text: string): number | undefined => /^\d{1,16}$/.test(text.trim()) ? Number(text) : undefined

/** The named fields that have a text which is no whole number. */
export function integerProblems<Name extends string>(
  form: Readonly<Record<Name, string>>,
  names: ReadonlyArray<Name>
): Partial<Record<Name, string>> {
  const problems: Partial<Record<Name, string>> = {}
  for (const name of names) {
    if (form[name].trim() !== "" && integerIn(form[name]) === undefined) problems[name] = "Must be a whole number"
  }
  return problems
}

export const textsOf = (input: ReadonlyArray<InputItem>): string =>
  input.flatMap((item) => item.type === "text" ? [item.text] : []).join("\n\n")

/** The service's messages, which have dotted paths, by the fields of a form. */
export function errorsByField<Name extends string>(
  errors: Readonly<Record<string, ReadonlyArray<string>>>,
  fieldAt: (path: string) => Name
): FieldErrors<Name> {
  const found: Partial<Record<Name, string>> = {}
  for (const [path, messages] of Object.entries(errors)) {
    const name = fieldAt(path)
    const text = `${path.replace(/^task\./, "").includes(".") ? `${path}: ` : ""}${messages.join(". ")}`
    found[name] = found[name] === undefined ? text : `${found[name]}. ${text}`
  }
  return found
}

/** The errors of a form that was sent: the first field with one gets the focus, and one that has changed since has none. */
export function useErrors<Form extends object, Name extends string>(form: Form) {
  const ref = useRef<HTMLFormElement>(null)
  const [sent, setSent] = useState<{ readonly errors: FieldErrors<Name>; readonly form: Form }>()
  useLayoutEffect(() => {
    if (Object.keys(sent?.errors ?? {}).length > 0) ref.current?.querySelector<HTMLElement>("[aria-invalid]")?.focus()
  }, [sent])
  const current = sent === undefined
    ? []
    : Object.entries(sent.errors).filter(([name]) => Reflect.get(form, name) === Reflect.get(sent.form, name))
  return {
    ref,
    // Only some of the errors that were sent.
    errors: Object.fromEntries(current) as FieldErrors<Name>,
    setErrors: (errors: FieldErrors<Name>) => setSent({ errors, form })
  }
}
