/** The runs that the core has and those that wait for room, by assistant. An assistant can be limited and paused. */
import { useState } from "preact/hooks"
import { Age, TextField } from "../../components/Basics.tsx"
import { Confirm } from "../../components/Dialog.tsx"
import { Icon } from "../../components/Icon.tsx"
import { ActionCell, useRows, withAction } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Figures, Rows } from "../../components/Table.tsx"
import { notify } from "../../messages.ts"
import { intervals, mayChange, put } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"

type Queue = Views.Queue
type Assistant = Queue["assistants"][number]

const nameOf = ({ assistant_id: id, name }: Pick<Assistant, "assistant_id" | "name">) => name ?? `Assistant ${id}`

const limitOf = (runs: number | null) => runs === null ? "no limit" : runs.toLocaleString("en")

/** The open dialog. */
type Question = { readonly ask: "pause" | "limit"; readonly assistant: Assistant } | { readonly ask: "other" }

const Row = ({ assistant, onAsk, queue }: {
  readonly assistant: Assistant
  readonly queue: Queue
  readonly onAsk: (question: Question) => void
}) => (
  <tr>
    <th scope="row" class="cell-node">
      <bdi>{nameOf(assistant)}</bdi>{" "}
      {assistant.name === null ? null : <span class="detail">{assistant.assistant_id}</span>}
    </th>
    <Cell label="State">
      <span class={`state ${assistant.paused ? "" : "state-delivered"}`}>
        <Icon name={assistant.paused ? "canceled" : "completed"} />
        {assistant.paused ? "paused" : "open"}
      </span>
    </Cell>
    <Cell label="Running" class="number">{assistant.running.toLocaleString("en")}</Cell>
    <Cell label="Limit" class="number">{limitOf(assistant.runs ?? queue.runs_per_assistant)}</Cell>
    <Cell label="Waiting" class="number">{assistant.waiting.toLocaleString("en")}</Cell>
    <AgeCell label="Oldest" at={assistant.oldest_waiting_since} />
    <ActionCell>
      <button type="button" class="button" onClick={() => onAsk({ ask: "pause", assistant })}>
        {assistant.paused ? "Resume" : "Pause"} <span class="visually-hidden">{nameOf(assistant)}</span>
      </button>{" "}
      <button type="button" class="button" onClick={() => onAsk({ ask: "limit", assistant })}>
        Limit <span class="visually-hidden">{nameOf(assistant)}</span>
      </button>
    </ActionCell>
  </tr>
)

interface DialogProps {
  readonly onClose: () => void
  readonly onDone: () => void
}

const Pause = ({ assistant, onClose, onDone }: DialogProps & { readonly assistant: Assistant }) => {
  const { assistant_id: id, paused } = assistant
  const change = async () => {
    await put(`/queue/assistants/${id}`, { paused: !paused })
    notify(paused ? `${nameOf(assistant)} goes on` : `${nameOf(assistant)} is paused`)
    onDone()
  }
  return (
    <Confirm
      title={`${paused ? "Resume" : "Pause"} ${nameOf(assistant)}?`}
      action={paused ? "Resume it" : "Pause it"}
      isDangerous={!paused}
      onConfirm={change}
      onClose={onClose}
    >
      <p>
        {paused
          ? "Its tasks go on in their order."
          : "Its new tasks wait, and fail only by their time limit. Those that the core has go on, also after answers to their tool calls."}
      </p>
    </Confirm>
  )
}

/** The limit of an assistant, which is named in the form unless it is given. */
const Limit = ({ assistant, onClose, onDone }: DialogProps & { readonly assistant: Assistant | undefined }) => {
  const [id, setId] = useState(assistant === undefined ? "" : String(assistant.assistant_id))
  const [runs, setRuns] = useState(assistant?.runs == null ? "" : String(assistant.runs))
  const change = async () => {
    const given = runs.trim()
    await put(`/queue/assistants/${encodeURIComponent(id.trim())}`, { runs: given === "" ? null : Number(given) })
    notify("The limit is changed")
    onDone()
  }
  return (
    <Confirm
      title={`Limit ${assistant === undefined ? "an assistant" : nameOf(assistant)}`}
      action="Set the limit"
      onConfirm={change}
      onClose={onClose}
    >
      <p>A lower limit ends no run: it holds when enough of them have ended.</p>
      {assistant === undefined
        ? <TextField label="Assistant id" isRequired required inputMode="numeric" value={id} onText={setId} />
        : null}
      <TextField
        label="Runs at a time"
        hint="Empty: the limit of all assistants, CORE_RUNS_PER_ASSISTANT"
        inputMode="numeric"
        value={runs}
        onText={setRuns}
      />
    </Confirm>
  )
}

/** Waiting runs by what they wait for: room, or the end of a pause. */
const waitingOf = ({ assistants, waiting }: Queue) => {
  const held = assistants.filter(({ paused, waiting }) => paused && waiting > 0)
  const paused = held.reduce((sum, each) => sum + each.waiting, 0)
  const since = assistants.flatMap((each) => each.paused ? [] : each.oldest_waiting_since ?? []).toSorted()[0]
  return { held, paused, since, forRoom: Math.max(0, waiting - paused) }
}

const Problem = ({ queue }: { readonly queue: Queue }) => {
  const { core_busy_since: busySince, core_unreachable: unreachable } = queue
  const since = unreachable?.since ?? busySince
  return since === null ? null : (
    <p class="banner" role="status">
      <Icon name="warning" />
      <span>
        {unreachable === null
          ? (
            <>
              The core ran out of room <Age at={since} />
            </>
          )
          : (
            <>
              The core was lost <Age at={since} />: <bdi>{unreachable.reason}</bdi>
            </>
          )}. {waitingOf(queue).forRoom.toLocaleString("en")} wait for room.
      </span>
    </p>
  )
}

/** Runs that wait only because someone has paused their assistants. */
const Held = ({ queue }: { readonly queue: Queue }) => {
  const { held, paused } = waitingOf(queue)
  return held.length === 0 ? null : (
    <p class="banner" role="status">
      <Icon name="warning" />
      <span>
        {paused.toLocaleString("en")} {paused === 1 ? "run waits" : "runs wait"} because of a pause:{" "}
        {held.slice(0, 3).map((each, index) => (
          <>
            {index === 0 ? "" : ", "}
            <bdi>{nameOf(each)}</bdi>
          </>
        ))}
        {held.length > 3 ? ", …" : ""}. Resume it to let them go on.
      </span>
    </p>
  )
}

const Summary = ({ queue }: { readonly queue: Queue }) => {
  const { forRoom, paused, since } = waitingOf(queue)
  return (
    <>
      <Problem queue={queue} />
      <Held queue={queue} />
      <Figures
        figures={[
          [
            queue.runs === null ? "Running" : `Running of ${queue.runs.toLocaleString("en")}`,
            queue.running,
            "/ops/tasks?status=processing"
          ],
          ["Waiting for room", forRoom, "/ops/tasks?status=pending"],
          ["The longest since", since === undefined ? "–" : <Age at={since} />, "/ops/tasks?status=pending"],
          ["Held by a pause", paused, "/ops/tasks?status=pending"]
        ]}
      />
    </>
  )
}

const columns = ["Assistant", "State", "Running", "Limit", "Waiting", "Oldest"]

export const OpsQueue = () => {
  const [question, setQuestion] = useState<Question>()
  const { polled, refresh } = useRows<Queue>(() => "/queue", intervals.overview)
  const dialog = { onClose: () => setQuestion(undefined), onDone: refresh }
  return (
    <Screen
      title="Queue"
      actions={mayChange()
        ? <button type="button" class="button" onClick={() => setQuestion({ ask: "other" })}>Limit an assistant</button>
        : undefined}
    >
      <Loaded polled={polled} refresh={refresh}>
        {(queue) => (
          <>
            <Summary queue={queue} />
            {queue.assistants.length === 0 ?
              (
                <Empty title="Nothing runs, and nothing waits">
                  <p>Each assistant has a row here while it has runs, a limit or a pause.</p>
                </Empty>
              ) :
              (
                <Rows
                  caption="Assistants, most waiting first"
                  columns={withAction(columns)}
                  numbers={["Running", "Limit", "Waiting"]}
                >
                  {queue.assistants.map((assistant) => (
                    <Row key={assistant.assistant_id} assistant={assistant} queue={queue} onAsk={setQuestion} />
                  ))}
                </Rows>
              )}
          </>
        )}
      </Loaded>
      {question === undefined
        ? null
        : question.ask === "pause"
        ? <Pause assistant={question.assistant} {...dialog} />
        : <Limit assistant={question.ask === "limit" ? question.assistant : undefined} {...dialog} />}
    </Screen>
  )
}
