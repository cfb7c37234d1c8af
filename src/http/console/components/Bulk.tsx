/** Begins an action on all that match a filter: it shows the number first. */
import { useEffect, useState } from "preact/hooks"
import { useAction } from "../actions.ts"
import { notify } from "../messages.ts"
import { post } from "../operator.ts"
import type * as Views from "../operatorTypes.ts"
import { navigate } from "../Router.ts"
import { Segments, shortId, TextField } from "./Basics.tsx"
import { Confirm } from "./Dialog.tsx"
import { Problem } from "./Screen.tsx"

export type BulkAction = "cancel" | "rerun" | "redeliver" | "delete"

const words: Readonly<Record<BulkAction, { readonly button: string; readonly what: string; readonly text: string }>> = {
  cancel: {
    button: "Cancel tasks",
    what: "tasks that have not ended",
    text: "Each is canceled, and the core stops its run. This cannot be undone."
  },
  rerun: {
    button: "Run again",
    what: "ended tasks whose request is kept",
    text:
      "Each gets a new task of its user. It takes one slot of a user at a time, and never the last free one: users without room wait."
  },
  redeliver: {
    button: "Send again",
    what: "failed webhooks",
    text: "Each gets one more attempt now."
  },
  delete: {
    button: "Delete tasks",
    what: "ended tasks",
    text: "Each is deleted with its result and its webhooks. This cannot be undone."
  }
}

export type BulkFilter = Readonly<Record<string, string | number | null | ReadonlyArray<string>>>

const maxReason = 1000

const BulkDialog = ({ actions, filter, onClose }: {
  readonly actions: ReadonlyArray<BulkAction>
  readonly filter: BulkFilter
  readonly onClose: () => void
}) => {
  const [action, setAction] = useState(actions[0]!)
  const [dry, setDry] = useState<Views.DryRun>()
  const matched = dry?.matched
  const [reason, setReason] = useState("")
  const [rate, setRate] = useState("50")
  const { button, text, what } = words[action]
  const count = useAction(async () => {
    setDry(undefined)
    setDry(await post<Views.DryRun>("/bulk", { action, filter, dry_run: true }))
  })
  useEffect(() => count.run(), [action])
  const start = async () => {
    const { id } = await post<Views.StartedBulk>("/bulk", {
      action,
      filter,
      reason: reason.trim() === "" ? null : reason.trim(),
      rate: Number(rate)
    })
    notify("Begun")
    navigate(`/ops/bulk/${id}`)
  }
  return (
    <Confirm
      title={matched === undefined ? button : `${button}: ${matched.toLocaleString("en")}?`}
      action={button}
      isDangerous={action === "cancel" || action === "delete"}
      onConfirm={start}
      onClose={onClose}
    >
      {actions.length === 1 ? null : (
        <Segments
          label="What to do"
          name="action"
          options={actions.map((name) => [name, words[name].button] as const)}
          value={action}
          onChoose={setAction}
        />
      )}
      <p role="status">
        {matched === undefined
          ? count.error === undefined ? "Counting what matches…" : ""
          : `${matched.toLocaleString("en")} ${what} match the filter of the list.`} {text}
      </p>
      {dry === undefined || dry.sample.length === 0 ? null : (
        <details>
          <summary>{dry.sample.length === 1 ? "It" : `${dry.sample.length} of them`}</summary>
          <ul class="sample-list">
            {dry.sample.map((row) => {
              const uuid = "task_uuid" in row ? row.task_uuid : row.uuid
              return (
                <li key={"id" in row ? row.id : row.uuid}>
                  <code title={uuid}>{shortId(uuid)}</code> <bdi>{"sub" in row ? row.sub : row.origin}</bdi>
                </li>
              )
            })}
          </ul>
        </details>
      )}
      <Problem error={count.error} onRetry={count.run} />
      <TextField
        label="Reason"
        hint="For the audit; canceled tasks show it."
        maxLength={maxReason}
        value={reason}
        onText={setReason}
      />
      <TextField
        label="Rate"
        hint="In a second, 1 to 1,000."
        isRequired
        inputMode="numeric"
        value={rate}
        onText={setRate}
      />
    </Confirm>
  )
}

/** A button that opens the dialog. */
export const BulkButton = ({ actions, filter, label }: {
  readonly actions: ReadonlyArray<BulkAction>
  readonly filter: () => BulkFilter
  readonly label: string
}) => {
  const [chosen, setChosen] = useState<BulkFilter>()
  return (
    <>
      <button type="button" class="button" onClick={() => setChosen(filter())}>{label}</button>
      {chosen === undefined
        ? null
        : <BulkDialog actions={actions} filter={chosen} onClose={() => setChosen(undefined)} />}
    </>
  )
}
