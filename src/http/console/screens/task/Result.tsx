import { isTerminal } from "../../../client/promise/TasksResource.ts"
import type { Task } from "../../../client/promise/Types.ts"
import { Item } from "../../components/Content.tsx"
import { JsonTree } from "../../components/JsonTree.tsx"
import { Paged } from "../../components/Paged.tsx"
import { Empty } from "../../components/Screen.tsx"
import { field, lengthOf, saidIn, textField } from "../../json.ts"

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

export const Result = ({ task }: { readonly task: Task }) => {
  const output = saidIn(task.turn)
  if (output.length === 0) {
    return task.status === "interrupted"
      ? null
      : <Empty title={isTerminal(task) ? "The task ended without output" : "No output yet"} />
  }
  return (
    <div class="result">
      {task.status === "completed" || task.status === "interrupted" ?
        null :
        (
          <p class="partial">
            Partial output{isTerminal(task) ? ": the task ended before its answer was complete." : " so far."}
          </p>
        )}
      <Paged items={output} what="items" weigh={lengthOf}>
        {(items) => items.map((item, index) => <Item key={index} item={item} />)}
      </Paged>
      <Usage metadata={field(task.turn, "metadata")} />
      {field(task.turn, "interrupt") === undefined
        ? null
        : <JsonTree name="interrupt" value={field(task.turn, "interrupt")} isOpen={false} />}
    </div>
  )
}
