/** The result of a task, while it is written too. */
import { isTerminal } from "../../../client/promise/TasksResource.ts"
import type { Task } from "../../../client/promise/Types.ts"
import { useAction } from "../../actions.ts"
import { active } from "../../active.ts"
import { client } from "../../api.ts"
import { Item } from "../../components/Content.tsx"
import { JsonTree } from "../../components/JsonTree.tsx"
import { Paged } from "../../components/Paged.tsx"
import { Empty, Problem } from "../../components/Screen.tsx"
import { field, lengthOf, saidIn, textField } from "../../json.ts"
import { notify } from "../../messages.ts"
import { href } from "../../Router.ts"

/** The model and its tokens, as far as the assistant reports them. */
const Usage = ({ metadata }: { readonly metadata: unknown }) => {
  const tokens = field(field(metadata, "usage"), "total_tokens")
  const parts = [
    textField(metadata, "model"),
    textField(metadata, "finish_reason"),
    typeof tokens === "number" ? `${tokens.toLocaleString("en")} tokens` : undefined
  ]
  const known = parts.filter((part) => part !== undefined).map((part) => part.slice(0, 200))
  return known.length === 0 ? null : <p class="model">{known.join(" · ")}</p>
}

const Stop = ({ uuid }: { readonly uuid: string }) => {
  const { error, isBusy, run } = useAction(async () => {
    await client.tasks.stop(uuid)
    notify("Task stopped")
    active.refresh()
  })
  return (
    <>
      <button type="button" class="button" aria-disabled={isBusy} onClick={() => run()}>Stop</button>
      <Problem error={error} />
    </>
  )
}

const isText = (item: unknown) => typeof item === "string" || textField(item, "text") !== undefined

/** `text` is what the task has written so far, newer than its turn. */
export const Result = ({ task, text = "" }: { readonly task: Task; readonly text?: string }) => {
  const stored = saidIn(task.turn)
  const isRunning = task.status === "processing" || task.status === "pending"
  const output = isRunning && text !== "" ? [text, ...stored.filter((item) => !isText(item))] : stored
  if (output.length === 0) {
    if (task.status === "interrupted") return null
    if (!isTerminal(task)) return <Empty title="No output yet">It appears here as it is written.</Empty>
    return (
      <Empty title={task.status === "completed" ? "The task completed without output" : "It ended before any output"}>
        {task.status === "failed" ? <p>Run it again, or see how far it came.</p> : null}
        <p class="inline">
          {task.request == null
            ? null
            : <a class="button primary" href={href(`/new?again=${task.uuid}`)}>Run again</a>}
          <a class="button" href={href(`/tasks/${task.uuid}?tab=run`)}>See its run</a>
        </p>
      </Empty>
    )
  }
  return (
    <div class="result">
      <Paged items={output} what="items" weigh={lengthOf}>
        {(items) => items.map((item, index) => <Item key={index} item={item} />)}
      </Paged>
      {/* Below, because a line that comes or goes above would move the text. */}
      {task.status === "completed" || task.status === "interrupted" ?
        null :
        (
          <p class="partial">
            Partial output{isRunning ? " so far." : ": the task ended before its answer was complete."}
          </p>
        )}
      {isRunning ? <Stop uuid={task.uuid} /> : null}
      <Usage metadata={field(task.turn, "metadata")} />
      {field(task.turn, "interrupt") === undefined
        ? null
        : <JsonTree name="interrupt" value={field(task.turn, "interrupt")} isOpen={false} />}
    </div>
  )
}
