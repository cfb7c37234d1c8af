/** Files that are uploaded while the user still writes: chooses them, shows how far they are, and takes them back. */
import { type Signal } from "@preact/signals"
import { useId } from "preact/hooks"
import { AbortError, AuthenticationError } from "../../client/promise/ApiErrors.ts"
import type { InputItem, UploadedFile } from "../../client/promise/Types.ts"
import { client } from "../api.ts"
import { config } from "../config.ts"
import { renewed, session } from "../session.ts"
import { type FieldControl, IconButton } from "./Basics.tsx"
import { Icon } from "./Icon.tsx"

export interface Upload {
  readonly id: number
  readonly name: string
  readonly bytes: number
  readonly abort: () => void
  readonly state:
    | { readonly kind: "sending"; readonly sent: number }
    | { readonly kind: "done"; readonly item: UploadedFile }
    | { readonly kind: "failed"; readonly message: string }
}

/** Items of one task: the service's limit. */
const maxFiles = 255

let nextId = 1

/** Why the service would refuse a file, or undefined. */
const refusalOf = ({ name, size }: Pick<File, "name" | "size">): string | undefined => {
  const { file_bytes: maxBytes, formats } = config.value.limits
  if (size > maxBytes) return `Larger than ${sizeOf(maxBytes)}`
  // Without an extension the type decides, which only the service knows.
  const extension = /\.(?=\d*[a-z])([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase()
  return extension === undefined || formats.includes(extension) ? undefined : "This format is not accepted"
}

const sizeOf = (bytes: number): string =>
  bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1000).toFixed(0)} kB` : `${(bytes / 1e6).toFixed(1)} MB`

/** Uploads have no `fetch` that could wait for another token, so they begin again. */
const send = async (file: File, signal: AbortSignal, onProgress: (sent: number) => void): Promise<UploadedFile> => {
  for (;;) {
    const token = session.value?.token ?? ""
    try {
      return await client.files.upload(file, {
        signal,
        onProgress: ({ loaded }) => onProgress(Math.min(loaded, file.size))
      })
    } catch (error) {
      if (!(error instanceof AuthenticationError)) throw error
      await renewed(token, signal)
    }
  }
}

/** Adds a file to a list and uploads it. */
const start = (uploads: Signal<ReadonlyArray<Upload>>, file: File) => {
  const id = nextId++
  const controller = new AbortController()
  const set = (state: Upload["state"]) => {
    uploads.value = uploads.value.map((upload) => upload.id === id ? { ...upload, state } : upload)
  }
  const abort = () => {
    controller.abort()
    uploads.value = uploads.value.filter((upload) => upload.id !== id)
  }
  const refusal = refusalOf(file)
  const state: Upload["state"] = refusal === undefined
    ? { kind: "sending", sent: 0 }
    : { kind: "failed", message: refusal }
  uploads.value = [...uploads.value, { id, name: file.name, bytes: file.size, abort, state }]
  if (refusal !== undefined) return
  send(file, controller.signal, (sent) => set({ kind: "sending", sent })).then(
    (item) => set({ kind: "done", item }),
    (error) => {
      if (!(error instanceof AbortError)) {
        set({ kind: "failed", message: error instanceof Error ? error.message : String(error) })
      }
    }
  )
}

export const itemsOf = (uploads: ReadonlyArray<Upload>): ReadonlyArray<UploadedFile> =>
  uploads.flatMap(({ state }) => state.kind === "done" ? [state.item] : [])

/** A voice item is a file with another name, without a path. */
export const asVoice = ({ file: { id, mime_type, name } }: UploadedFile): InputItem => ({
  type: "voice",
  voice: { id, name, mime_type }
})

const Row = ({ upload: { abort, bytes, name, state } }: { readonly upload: Upload }) => {
  const id = useId()
  return (
    <li class="upload">
      <Icon name={state.kind === "done" ? "completed" : state.kind === "failed" ? "failed" : "file"} />
      <span class="upload-name" id={id}>
        <bdi>{name}</bdi>
      </span>
      <span class="detail">
        {state.kind === "sending"
          ? `${Math.floor(100 * state.sent / Math.max(1, bytes))} % of ${sizeOf(bytes)}`
          : sizeOf(bytes)}
      </span>
      <IconButton icon="close" label={`Remove ${name}`} onClick={abort} />
      {state.kind === "sending" ? <progress aria-labelledby={id} value={state.sent} max={Math.max(1, bytes)} /> : null}
      {state.kind === "failed" ? <p class="field-error">{state.message}</p> : null}
    </li>
  )
}

export const addFiles = (
  uploads: Signal<ReadonlyArray<Upload>>,
  files: Iterable<File> | null | undefined,
  most = maxFiles
) => {
  for (const file of files ?? []) {
    if (uploads.value.length >= most) return
    start(uploads, file)
  }
}

export const Uploads = ({ control, isSingle = false, uploads }: {
  readonly control: FieldControl
  readonly uploads: Signal<ReadonlyArray<Upload>>
  readonly isSingle?: boolean
}) => (
  <>
    <input
      {...control}
      type="file"
      multiple={!isSingle}
      accept={(isSingle ? ["mp3", "wav", "ogg", "m4a", "webm"] : config.value.limits.formats).map((format) =>
        `.${format}`
      ).join()}
      onChange={({ currentTarget }) => {
        if (isSingle) { for (const { abort } of uploads.value) abort() }
        addFiles(uploads, currentTarget.files, isSingle ? 1 : maxFiles)
        currentTarget.value = ""
      }}
    />
    {uploads.value.length === 0 ?
      null :
      <ul class="uploads">{uploads.value.map((upload) => <Row key={upload.id} upload={upload} />)}</ul>}
  </>
)
