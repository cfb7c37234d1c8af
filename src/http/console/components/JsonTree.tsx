/** JSON of any shape: names and values, and a tree that opens node by node, so that a closed node costs nothing. */
import { useState } from "preact/hooks"
import { isFields } from "../json.ts"
import { Icon } from "./Icon.tsx"
import { LongText } from "./Text.tsx"

/** Children of a node that are shown at a time. */
const pageSize = 50
/** Characters of a text in the tree before it becomes a block of its own. */
const lineLength = 200
/** Children of a node that opens together with the root. */
const small = 8

const Leaf = ({ value }: { readonly value: unknown }) => {
  if (typeof value !== "string") {
    return <code class={`json json-${value === null ? "null" : typeof value}`}>{String(value)}</code>
  }
  if (value.length <= lineLength) {
    return (
      <code class="json json-string">
        <bdi>{JSON.stringify(value)}</bdi>
      </code>
    )
  }
  return <LongText text={value}>{(text) => <pre class="json-block" tabIndex={0} dir="auto">{text}</pre>}</LongText>
}

const isNode = (value: unknown): value is object => typeof value === "object" && value !== null

const Node = ({ depth, isOpen: isOpenAtFirst, name, value }: {
  readonly name: string
  readonly value: object
  readonly depth: number
  readonly isOpen: boolean
}) => {
  const [isOpen, setOpen] = useState(isOpenAtFirst)
  const keys = Object.keys(value)
  return (
    <li>
      <button type="button" class="json-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="chevron" />
        <bdi class="json-name">{name}</bdi>
        <span class="json-count">{Array.isArray(value) ? `[${keys.length}]` : `{${keys.length}}`}</span>
      </button>
      {isOpen ? <Children value={value} keys={keys} depth={depth + 1} /> : null}
    </li>
  )
}

const Children = ({ depth, keys, value }: {
  readonly value: object
  readonly keys: ReadonlyArray<string>
  readonly depth: number
}) => {
  const [shown, setShown] = useState(pageSize)
  return (
    <ul class="json-tree">
      {keys.slice(0, shown).map((key) => {
        const child: unknown = Reflect.get(value, key)
        return isNode(child)
          ? (
            <Node
              key={key}
              name={key}
              value={child}
              depth={depth}
              isOpen={depth === 1 && Object.keys(child).length <= small}
            />
          )
          : (
            <li key={key}>
              <bdi class="json-name">{key}</bdi> <Leaf value={child} />
            </li>
          )
      })}
      {keys.length <= shown ? null : (
        <li>
          <button type="button" class="button" onClick={() => setShown(shown + pageSize)}>
            Show {Math.min(pageSize, keys.length - shown)} more of {keys.length}
          </button>
        </li>
      )}
    </ul>
  )
}

export const JsonTree = ({ isOpen = true, name = "value", value }: {
  readonly value: unknown
  readonly name?: string
  readonly isOpen?: boolean
}) =>
  isNode(value)
    ? (
      <ul class="json-tree json-root" dir="ltr">
        <Node name={name} value={value} depth={0} isOpen={isOpen} />
      </ul>
    )
    : <Leaf value={value} />

/** Plain values that are one line. */
const maxLine = 20

const isShort = (value: unknown) =>
  typeof value === "number" || typeof value === "boolean" || (typeof value === "string" && value.length <= lineLength)

const Value = ({ depth, value }: { readonly value: unknown; readonly depth: number }) => {
  if (value === null) return <>–</>
  if (isShort(value) && value !== "") return <bdi>{String(value)}</bdi>
  if (Array.isArray(value) && value.length > 0 && value.length <= maxLine && value.every(isShort)) {
    return (
      <>
        {value.map((each, index) => (
          <span key={index}>
            {index === 0 ? "" : ", "}
            <bdi>{String(each)}</bdi>
          </span>
        ))}
      </>
    )
  }
  return isFields(value) && depth < 2
    ? <Values value={value} depth={depth + 1} />
    : <JsonTree value={value} isOpen={!Array.isArray(value)} />
}

/** An object as people read it. What is deep or long is a tree. */
export const Values = ({ depth = 0, value }: { readonly value: object; readonly depth?: number }) => {
  const entries = Object.entries(value)
  return entries.length === 0 || entries.length > pageSize ? <JsonTree value={value} /> : (
    <dl class="values">
      {entries.map(([name, part]) => (
        <div key={name}>
          <dt>
            <bdi>{name.replaceAll("_", " ")}</bdi>
          </dt>
          <dd>
            <Value value={part} depth={depth} />
          </dd>
        </div>
      ))}
    </dl>
  )
}
