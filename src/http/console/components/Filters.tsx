/** Filters of lists, which are parts of the address. */
import { submitting } from "../actions.ts"
import { href, path, query, queryOf, setQuery } from "../Router.ts"

/** Another filter begins with the first page. */
export const change = (name: string, value: string) => {
  for (const position of ["cursor", "page"]) {
    if (query.value.has(position)) setQuery(position, undefined, { replace: true })
  }
  setQuery(name, value === "" ? undefined : value)
}

/** A text that is part of the address once it is entered. */
export const TextFilter = ({ isFirst, label, name, onEnter }: {
  readonly name: string
  readonly label: string
  readonly isFirst?: boolean
  /** Handles a text itself, and returns whether it did. */
  readonly onEnter?: (text: string) => boolean
}) => (
  <form
    class="filter-field"
    onSubmit={submitting((form) => {
      const field = form.elements.namedItem(name)
      const text = field instanceof HTMLInputElement ? field.value.trim() : ""
      if (onEnter?.(text) !== true) change(name, text)
    })}
  >
    <label>
      <span>{label}</span>
      <input
        key={query.value.get(name) ?? ""}
        name={name}
        type="search"
        autocomplete="off"
        spellcheck={false}
        maxLength={200}
        onInput={({ currentTarget: { value } }) => value === "" && change(name, "")}
        defaultValue={query.value.get(name) ?? ""}
        data-filter={isFirst === true ? "" : undefined}
      />
    </label>
  </form>
)

/** Links that choose a value of the address. Another choice begins with the first page. */
export const LinkFilter = ({ isFirst = false, label, name, options }: Omit<SelectProps, "value"> & {
  readonly isFirst?: boolean
}) => {
  const chosen = options.find(([option]) => option === query.value.get(name))?.[0] ?? ""
  return (
    <nav class="filter" aria-label={label}>
      {[["", "All"] as const, ...options].map(([option, text]) => (
        <a
          key={option}
          href={href(path.value + queryOf({ ...Object.fromEntries(query.value), page: undefined, [name]: option }))}
          aria-current={option === chosen ? "true" : undefined}
          data-filter={isFirst && option === chosen ? "" : undefined}
        >
          {text}
        </a>
      ))}
    </nav>
  )
}

export interface SelectProps {
  readonly name: string
  readonly label: string
  readonly options: ReadonlyArray<readonly [value: string, label: string]>
  readonly value?: string
}

/** A choice that is part of the address. Another choice begins with the first page. */
export const Select = ({ label, name, options, value }: SelectProps) => (
  <label class="filter-field">
    <span>{label}</span>
    <select value={value ?? query.value.get(name) ?? ""} onChange={(event) => change(name, event.currentTarget.value)}>
      {options.map(([option, text]) => <option key={option} value={option}>{text}</option>)}
    </select>
  </label>
)
