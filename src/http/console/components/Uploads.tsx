/** Chooses files, shows how far their uploads are, and takes them back. */
import type { Signal } from "@preact/signals"
import { useId } from "preact/hooks"
import { config } from "../api.ts"
import { maxFiles, sizeOf, start, type Upload } from "../uploads.ts"
import { type FieldControl, IconButton } from "./Basics.tsx"
import { Icon } from "./Icon.tsx"

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
