/** Items of a task's output and of its messages: text, files, and JSON of any other shape. */
import { signal } from "@preact/signals"
import { useEffect } from "preact/hooks"
import { client } from "../api.ts"
import { config } from "../config.ts"
import { field, jsonIn, textField } from "../json.ts"
import { linkOf } from "../links.ts"
import { Icon } from "./Icon.tsx"
import { JsonTree } from "./JsonTree.tsx"
import { Image, Markdown } from "./Text.tsx"

/** Characters of a file's name or type that are shown. */
const maxName = 200

/** The base URL of download links; undefined until it is known. */
const storageBase = signal<URL | undefined>(undefined)

/** Reads the base URL: the link of a file without a path is the URL with a slash. */
const loadBase = async () => {
  if (storageBase.value === undefined) storageBase.value = URL.parse(await client.files.url("")) ?? undefined
}

/** A link to a stored file. The policy of the page allows images and sound of its own origin only. */
const StoredFile = ({ kind, name, path, type }: {
  readonly kind: "image" | "sound" | "other"
  readonly name: string
  readonly path: string
  readonly type: string
}) => {
  useEffect(() => void loadBase().catch(() => {}), [])
  const storage = storageBase.value
  const link = storage === undefined ? undefined : linkOf(storage, path)
  const label = (
    <>
      <Icon name="file" />
      <bdi>{name.slice(0, maxName)}</bdi>
      <span class="detail">{type.slice(0, maxName)}</span>
    </>
  )
  if (link === undefined) {
    return (
      <p class="file">
        {label}
        <code>{path.slice(0, maxName)}</code>
      </p>
    )
  }
  const isOwn = storage?.origin === location.origin
  const isOffered = kind === "image" && config.value.image_origins?.includes(storage?.origin ?? "") === true
  return (
    <figure class="file-figure">
      {isOwn && kind === "image" ? <img src={link} alt={name.slice(0, maxName)} loading="lazy" /> : null}
      {isOwn && kind === "sound"
        ? <audio src={link} controls preload="none" aria-label={name.slice(0, maxName)} />
        : null}
      {isOffered && !isOwn ? <Image to={link} text={name.slice(0, maxName)} /> : null}
      <a class="file" href={link} target="_blank" rel="noopener noreferrer">{label}</a>
    </figure>
  )
}

/** The name, type and path of a file item, if it is one. */
const fileIn = (item: unknown) => {
  const kind = textField(item, "type")
  const file = field(item, kind === "voice" ? "voice" : "file")
  const name = textField(file, "name")
  if (name === undefined) return undefined
  const type = textField(file, "mime_type") ?? ""
  return {
    name,
    kind: kind === "image" || type.startsWith("image/")
      ? "image" as const
      : kind === "voice" || type.startsWith("audio/")
      ? "sound" as const
      : "other" as const,
    type,
    path: textField(field(file, "provider_data"), "path") ?? ""
  }
}

/** Text is Markdown, unless it is nothing but JSON. */
const Words = ({ text }: { readonly text: string }) => {
  const json = jsonIn(text)
  return json === undefined ? <Markdown text={text} /> : <JsonTree name="JSON" value={json} />
}

export const Item = ({ item }: { readonly item: unknown }) => {
  if (typeof item === "string") return <Words text={item} />
  const text = ["text", "output_text"].includes(textField(item, "type") ?? "") ? textField(item, "text") : undefined
  if (text !== undefined) return <Words text={text} />
  const file = fileIn(item)
  return file === undefined ? <JsonTree name="item" value={item} /> : <StoredFile {...file} />
}
