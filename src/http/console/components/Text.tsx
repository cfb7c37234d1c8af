/** Text of tasks, which is not trusted. It becomes elements and is never parsed as HTML. */
import { lexer, type Token, type Tokens } from "marked"
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { config } from "../config.ts"
import { addressOf, maxAddress } from "../links.ts"
import { copy } from "../messages.ts"

/** Characters that are shown and parsed before the user expands the text. */
const maxCharacters = 100_000
/** Levels of nested Markdown; deeper text is shown as it is. */
const maxDepth = 12

/** Cuts a long text; a button shows the rest. */
export const LongText = ({ children, text }: {
  readonly text: string
  readonly children: (text: string) => ComponentChildren
}) => {
  const [isWhole, setWhole] = useState(false)
  if (text.length <= maxCharacters || isWhole) return <>{children(text)}</>
  return (
    <>
      {children(text.slice(0, maxCharacters))}
      <p>
        <button type="button" class="button" onClick={() => setWhole(true)}>
          Show all {text.length.toLocaleString("en")} characters
        </button>
      </p>
    </>
  )
}

/** A link to another page. The host is visible, because the text of the link may name another one. */
const Link = ({ children, to }: { readonly to: string; readonly children: ComponentChildren }) => {
  const url = addressOf(to)
  if (url === undefined) return <span>{children} ({to.slice(0, maxAddress)})</span>
  return (
    <a href={url.href} rel="noopener noreferrer nofollow" target="_blank">
      <bdi>{children}</bdi>
      <span class="host">{url.host || url.pathname}</span>
    </a>
  )
}

/** An image of an origin that the service allows. Only a click loads it: a model's text could carry data out in its address. */
export const Image = ({ text, to }: { readonly text: string; readonly to: string }) => {
  const [isShown, setShown] = useState(false)
  const url = addressOf(to)
  if (url === undefined || config.value.image_origins?.includes(url.origin) !== true) return <Link to={to}>{text}</Link>
  return isShown
    ? <img src={url.href} alt={text} referrerpolicy="no-referrer" loading="lazy" />
    : (
      <span class="image-offer">
        <Link to={to}>{text}</Link>{" "}
        <button type="button" class="button" onClick={() => setShown(true)}>Show the image</button>
      </span>
    )
}

const Code = ({ text }: { readonly text: string }) => (
  <div class="code-block">
    <pre tabIndex={0} dir="ltr"><code>{text}</code></pre>
    <button type="button" class="button quiet" aria-label="Copy code" onClick={() => void copy("Code", text)}>
      Copy
    </button>
  </div>
)

const Table = ({ align, depth, header, rows }: Tokens.Table & { readonly depth: number }) => {
  const cells = (row: ReadonlyArray<Tokens.TableCell>, Cell: "th" | "td") =>
    row.map(({ tokens }, index) => (
      <Cell key={index} class={align[index] ?? undefined} scope={Cell === "th" ? "col" : undefined}>
        {inline(tokens, depth)}
      </Cell>
    ))
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table">
      <table dir="auto">
        <thead>
          <tr>{cells(header, "th")}</tr>
        </thead>
        <tbody>{rows.map((row, index) => <tr key={index}>{cells(row, "td")}</tr>)}</tbody>
      </table>
    </div>
  )
}

const isKind = <Kind extends Tokens.Generic["type"]>(kind: Kind) => (token: Token): boolean => token.type === kind

const isList = (token: Token): token is Tokens.List => isKind("list")(token) && "items" in token
const isTable = (token: Token): token is Tokens.Table => isKind("table")(token) && "rows" in token

const textOf = (token: Token): string => "text" in token && typeof token.text === "string" ? token.text : token.raw

/** The children of a token, or its text where it has none. */
const inside = (token: Token, depth: number): ComponentChildren =>
  "tokens" in token && token.tokens !== undefined && depth < maxDepth
    ? inline(token.tokens, depth + 1)
    : isolated(textOf(token))

const addressIn = (token: Token): string => "href" in token && typeof token.href === "string" ? token.href : ""

const Item = ({ depth, item }: { readonly item: Tokens.ListItem; readonly depth: number }) => (
  <li>
    {item.task ? (item.checked === true ? "☑ " : "☐ ") : null}
    {inline(item.tokens, depth)}
  </li>
)

const List = ({ depth, list }: { readonly list: Tokens.List; readonly depth: number }) => {
  const items = list.items.map((item, index) => <Item key={index} item={item} depth={depth} />)
  return list.ordered
    ? <ol start={list.start === "" ? 1 : list.start} dir="auto">{items}</ol>
    : <ul dir="auto">{items}</ul>
}

const rightToLeft = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}]/u
/** A text whose first letter is of such a script. */
const beginsRightToLeft = /^\P{L}*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}]/u
/** Latin letters and digits in several pieces, as codes and dates have them. It begins at the begin of a word only, to be linear. */
const codes = /(?<![A-Za-z0-9])([A-Za-z0-9]+(?:[-/.:_#][A-Za-z0-9]+)+)/

/** Within text that runs from right to left, a code such as `2026-11-B-0417` would be shown in another order. */
const isolated = (text: string): ComponentChildren =>
  rightToLeft.test(text)
    ? text.split(codes).map((piece, index) => index % 2 === 0 ? piece : <bdi key={index} dir="ltr">{piece}</bdi>)
    : text

const element = (token: Token, key: number, depth: number): ComponentChildren => {
  if (depth >= maxDepth) return token.raw
  if (isList(token)) return <List key={key} list={token} depth={depth + 1} />
  if (isTable(token)) return <Table key={key} {...token} depth={depth + 1} />
  switch (token.type) {
    case "space":
    case "def":
    // Its list item shows it.
    case "checkbox":
      return null
    case "paragraph":
      return <p key={key} dir="auto">{inside(token, depth)}</p>
    case "heading":
      return (
        <p
          key={key}
          class={`heading heading-${"depth" in token ? String(token.depth) : ""}`}
          dir="auto"
          role="heading"
          aria-level={3}
        >
          {inside(token, depth)}
        </p>
      )
    case "code":
      return <Code key={key} text={textOf(token)} />
    case "codespan":
      return <code key={key} dir="ltr">{textOf(token)}</code>
    case "blockquote":
      return <blockquote key={key} dir="auto">{inside(token, depth)}</blockquote>
    case "strong":
      return <strong key={key}>{inside(token, depth)}</strong>
    case "em":
      return <em key={key}>{inside(token, depth)}</em>
    case "del":
      return <del key={key}>{inside(token, depth)}</del>
    case "br":
      return <br key={key} />
    case "hr":
      return <hr key={key} />
    case "link":
      return <Link key={key} to={addressIn(token)}>{inside(token, depth)}</Link>
    case "image":
      return <Image key={key} to={addressIn(token)} text={textOf(token) || "image"} />
    case "text":
      return <span key={key}>{inside(token, depth)}</span>
    case "escape":
      return textOf(token)
    default:
      // HTML among them.
      return token.raw
  }
}

const inline = (tokens: ReadonlyArray<Token>, depth: number): ComponentChildren =>
  tokens.map((token, index) => element(token, index, depth))

/** Deep nesting makes the lexer fail, and the number of delimiters in one block makes it quadratic. */
const maxDelimiters = 2000
const deep = /^[ \t]*(>[ \t]?|([-*+]|\d{1,9}[.)])[ \t]){20}|(\[[^\]]{0,3}){50}|^[ \t]{200}/m

const isCostly = (text: string) =>
  deep.test(text) ||
  text.split(/\n[ \t]*\n/).some((block) => (block.match(/[*_~`[\]<!|]/g)?.length ?? 0) > maxDelimiters)

const tokensOf = (text: string): ReadonlyArray<Token> | undefined => {
  try {
    return text.length > maxCharacters || isCostly(text) ? undefined : lexer(text)
  } catch {
    return undefined
  }
}

/** Markdown as elements. What is too long or too deep to parse is shown as it is. */
export const Markdown = ({ text }: { readonly text: string }) => (
  <LongText text={text}>
    {(shown) => {
      const tokens = tokensOf(shown)
      return (
        <div class="prose" dir={beginsRightToLeft.test(shown.slice(0, 1000)) ? "rtl" : undefined}>
          {tokens === undefined ? <pre tabIndex={0} dir="auto">{shown}</pre> : inline(tokens, 0)}
        </div>
      )
    }}
  </LongText>
)
