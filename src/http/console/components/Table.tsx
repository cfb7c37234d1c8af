/** Tables with a hidden caption, and the cells that several of them have. */
import type { ComponentChildren } from "preact"
import { href } from "../Router.ts"
import { Age, shortId } from "./Basics.tsx"

/** Columns of controls, which explain themselves. */
const controls: ReadonlySet<string> = new Set(["Choose", "Actions"])

export interface TableProps {
  readonly caption: string
  readonly columns: ReadonlyArray<string>
  /** The columns whose heads are above numbers. */
  readonly numbers?: ReadonlyArray<string>
  readonly children: ComponentChildren
}

const Table = ({ caption, children, columns, numbers = [], style }: TableProps & { readonly style: string }) => (
  <table class={style}>
    <caption class="visually-hidden">{caption}</caption>
    <thead>
      <tr>
        {columns.map((name) => (
          <th key={name} scope="col" class={numbers.includes(name) ? "number" : undefined}>
            {controls.has(name) ? <span class="visually-hidden">{name}</span> : name}
          </th>
        ))}
      </tr>
    </thead>
    <tbody>{children}</tbody>
  </table>
)

/** A list whose rows become cards on narrow screens. */
export const Rows = (props: TableProps) => <Table {...props} style="rows" />

/** A table that scrolls in its own region. */
export const DataTable = ({ region, ...props }: TableProps & { readonly region: string }) => (
  <div class="scroll" tabIndex={0} role="region" aria-label={region}>
    <Table {...props} style="data" />
  </div>
)

export interface CellProps {
  readonly label: string
  readonly class?: string
  readonly children: ComponentChildren
}

/** Narrow screens show the label in front of the value, and no cell without a value. */
export const Cell = ({ children, class: name, label }: CellProps) => (
  <td class={`cell ${children === "–" ? "none" : ""} ${name ?? ""}`}>
    <span class="card-label">{label}</span>
    <span>{children}</span>
  </td>
)

export const AgeCell = ({ at, label, never = "–" }: {
  readonly label: string
  readonly at: string | null
  /** Shown instead of null. */
  readonly never?: string
}) => <Cell label={label} class="cell-age">{at === null ? never : <Age at={at} />}</Cell>

/** Links to the page of a user, or to another one. */
export const UserCell = ({ isLink = true, sub, to = `/ops/users/${encodeURIComponent(sub)}` }: {
  readonly sub: string
  readonly to?: string
  readonly isLink?: boolean
}) => (
  <Cell label="User" class="cell-user">
    {isLink
      ? (
        <a href={href(to)}>
          <Text>{sub}</Text>
        </a>
      )
      : <Text>{sub}</Text>}
  </Cell>
)

/** The head of a row: a link to the screen of its task. */
export const TaskCell = ({ below, children, uuid }: {
  readonly below: "/tasks" | "/ops/tasks"
  readonly uuid: string
  readonly children?: ComponentChildren
}) => (
  <th scope="row" class="cell-id">
    <a href={href(`${below}/${uuid}`)} data-row="" title={uuid}>
      <code>{shortId(uuid)}</code>
    </a>
    {children}
  </th>
)

/** Numbers that come first on a screen, each with the list behind it. */
export const Figures = ({ figures }: {
  readonly figures: ReadonlyArray<readonly [label: string, value: ComponentChildren, to: string]>
}) => (
  <ul class="figures">
    {figures.map(([label, value, to]) => (
      <li key={label} class="card">
        <a href={href(to)}>
          <span>{label}</span>
          <strong>{typeof value === "number" ? value.toLocaleString("en") : value}</strong>
        </a>
      </li>
    ))}
  </ul>
)

/** Text of users and systems, which may have any direction and length. */
export const Text = ({ children }: { readonly children: string }) => <bdi class="cut" title={children}>{children}</bdi>
