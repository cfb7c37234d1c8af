/** Goes on with the conversation of a completed task: the same assistant and tools, and what it said before. */
import { useMemo, useState } from "preact/hooks"
import { randomId } from "../../../client/promise/Transport.ts"
import type { CreateTask, Task } from "../../../client/promise/Types.ts"
import { submitting, useAction } from "../../actions.ts"
import { active } from "../../active.ts"
import { client } from "../../api.ts"
import { TextField } from "../../components/Basics.tsx"
import { Problem } from "../../components/Screen.tsx"
import { textsOf } from "../../forms.ts"
import { listField, saidIn, textField } from "../../json.ts"
import { notify } from "../../messages.ts"
import { bodyOf, formOf } from "../../newTask.ts"
import * as preferences from "../../preferences.ts"
import { linked } from "../../related.ts"
import { href, navigate } from "../../Router.ts"

/** The conversation so far: the turn, or what was asked and said where its core keeps no messages. */
const conversationOf = ({ turn }: Task, request: NonNullable<Task["request"]>): CreateTask["turns"] => {
  if (turn !== null && listField(turn, "messages").length > 0) return [turn]
  const said = saidIn(turn).map((item) => typeof item === "string" ? item : textField(item, "text") ?? "")
  return [...request.turns, { role: "user", content: textsOf(request.input) }, {
    role: "assistant",
    content: said.join("\n\n")
  }]
}

export const Reply = ({ request, task }: {
  readonly task: Task
  readonly request: NonNullable<Task["request"]>
}) => {
  const draft = `draft.reply.${task.uuid}`
  const [text, setText] = useState(preferences.read(preferences.tab, draft) ?? "")
  const [isMissing, setMissing] = useState(false)
  // The key belongs to the content, so that a request whose answer was lost takes effect once.
  const key = useMemo(randomId, [text])
  const { error, isBusy, run } = useAction(async () => {
    setMissing(text.trim() === "")
    if (text.trim() === "") return
    const { carried, form } = formOf(request)
    // Without the secret, which the service does not return, its receiver would refuse a webhook.
    const made = bodyOf({ ...form, callback_url: "", text }, [], undefined, carried)
    if ("problems" in made) throw new Error(Object.values(made.problems).join(". "))
    const metadata = linked(made.body.metadata, "continues", task.uuid)
    const body = { ...made.body, metadata, turns: conversationOf(task, request) }
    const { uuid } = await client.tasks.create(body, { idempotencyKey: key, maxRetries: 0 })
    preferences.write(preferences.tab, draft, null)
    notify("Task created")
    active.refresh()
    navigate(`/tasks/${uuid}`)
  })
  return (
    <form
      class="reply card"
      aria-label="Reply"
      noValidate
      onSubmit={submitting(() => run())}
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run()
      }}
    >
      <TextField
        label="Reply"
        isRequired
        name="reply"
        rows={3}
        spellcheck
        error={isMissing && text.trim() === "" ? "Type something" : undefined}
        value={text}
        onText={(value) => {
          preferences.write(preferences.tab, draft, value === "" ? null : value)
          setText(value)
        }}
      />
      <Problem error={error} />
      <div class="form-end">
        <a class="button quiet" href={href(`/new?after=${task.uuid}`)}>With files and options</a>
        <button type="submit" class="button primary" aria-disabled={isBusy} title="Ctrl+Enter">Send</button>
      </div>
    </form>
  )
}
