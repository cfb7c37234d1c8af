/** One run as a whole: its phases on a time axis, and its messages, in which each tool call has its result. */
import { isTerminal } from "../../../client/promise/TasksResource.ts"
import type { Task, TaskEvent, TaskStatus } from "../../../client/promise/Types.ts"
import { duration, now } from "../../clock.ts"
import { Moment, Status } from "../../components/Basics.tsx"
import { Item } from "../../components/Content.tsx"
import { Icon } from "../../components/Icon.tsx"
import { JsonTree } from "../../components/JsonTree.tsx"
import { Paged } from "../../components/Paged.tsx"
import { Empty, Skeleton } from "../../components/Screen.tsx"
import { DataTable } from "../../components/Table.tsx"
import { field, lengthOf, listField, textField, unfold } from "../../json.ts"
import { phasesOf } from "../../phases.ts"

const phaseWords: Readonly<Partial<Record<TaskStatus, string>>> = {
  pending: "Waited for the core",
  processing: "Worked",
  interrupted: "Waited for you"
}

/** Marks of progress on one bar: more cannot be told apart. */
const maxTicks = 60

/** Each phase is a row, at its place on the axis of the whole run. */
const Waterfall = ({ events, task }: { readonly events: ReadonlyArray<TaskEvent>; readonly task: Task }) => {
  const phases = phasesOf(events, now.value)
  const first = phases[0]?.from
  const last = phases.at(-1)?.to
  if (first === undefined || last === undefined) return null
  const place = (at: number) => `${((at - first) / Math.max(1, last - first)) * 100}%`
  const notes = events.filter(({ event }) => event === "progress").map(({ occurred_at: at }) => Date.parse(at))
  const isQueued = task.waiting_on?.party === "queue"
  return (
    <ol class="waterfall" aria-label="Phases">
      {phases.map(({ from, status, to }, index) => {
        const isLast = index === phases.length - 1
        const own = notes.filter((at) => at >= from && (at < to || isLast))
        const ticks = own.filter((_, at) => at % Math.ceil(own.length / maxTicks) === 0)
        const word = isQueued && isLast ? "Waits in the queue" : phaseWords[status]
        return (
          <li key={from}>
            <span>
              {word}
              {own.length === 0 ?
                null :
                <span class="detail">{own.length === 1 ? "1 progress note" : `${own.length} progress notes`}</span>}
            </span>
            <span class="track" aria-hidden="true">
              <span
                class={`phase phase-${status}`}
                style={{ insetInlineStart: place(from), insetInlineEnd: `calc(100% - ${place(to)})` }}
              />
              {ticks.map((at) => <i key={at} style={{ insetInlineStart: place(at) }} />)}
            </span>
            <strong>{duration(to - from)}</strong>
          </li>
        )
      })}
      <li>
        <Status status={task.status} waiting={task.waiting_on} />
        <span class="track-end">
          <Moment at={new Date(first).toISOString()} />
          {task.completed_at === null
            ? task.waiting_on == null ? null : (
              <span>
                until <Moment at={task.waiting_on.until} />
              </span>
            )
            : <Moment at={task.completed_at} />}
        </span>
        <strong>{duration(last - first)}</strong>
      </li>
    </ol>
  )
}

/** Consecutive progress notes are one row. */
const rowsOf = (events: ReadonlyArray<TaskEvent>) => {
  const rows: Array<{ readonly event: TaskEvent; readonly after: number | undefined; count: number }> = []
  for (const [index, event] of events.entries()) {
    const before = events[index - 1]
    const last = rows.at(-1)
    if (event.event === "progress" && last?.event.event === "progress") last.count++
    else {
      const after = before === undefined ? undefined : Date.parse(event.occurred_at) - Date.parse(before.occurred_at)
      rows.push({ event, after, count: 1 })
    }
  }
  return rows
}

const Events = ({ events }: { readonly events: ReadonlyArray<TaskEvent> }) => (
  <details class="more">
    <summary>{events.length === 1 ? "1 event" : `${events.length} events`}</summary>
    <Paged items={rowsOf(events)} what="events" isNewestFirst>
      {(shown) => (
        <DataTable
          region="Events"
          caption="Events, newest first"
          columns={["Event", "Moment", "After"]}
          numbers={["After"]}
        >
          {shown.map(({ after, count, event }) => (
            <tr key={event.revision}>
              <td>
                {event.event === "progress"
                  ? (
                    <span class="status">
                      <Icon name="progress" />
                      {count === 1 ? "Progress" : `${count} × progress`}
                    </span>
                  )
                  : <Status status={event.status} />}
              </td>
              <td>
                <Moment at={event.occurred_at} />
              </td>
              <td class="number">{after === undefined ? "" : `+${duration(after)}`}</td>
            </tr>
          ))}
        </DataTable>
      )}
    </Paged>
  </details>
)

type Results = ReadonlyMap<string, unknown>

const Call = ({ call, results, waiting }: {
  readonly call: unknown
  readonly results: Results
  /** Ids of the calls that the user has to answer. */
  readonly waiting: ReadonlySet<string>
}) => {
  const fn = field(call, "function")
  const name = textField(call, "name") ?? textField(fn, "name")
  if (name === undefined) return <JsonTree name="tool call" value={call} isOpen={false} />
  const given = unfold(field(call, "arguments") ?? field(fn, "arguments"))
  const id = textField(call, "id") ?? ""
  const result = results.get(id)
  const isFailed = field(result, "is_error") === true
  return (
    <div class="call">
      <p>
        <Icon name={isFailed ? "failed" : waiting.has(id) ? "interrupted" : "tool"} /> <code>{name.slice(0, 100)}</code>
        {isFailed ? <span class="role-error">failed</span> : null}
        {waiting.has(id) ? <span class="deadline">waits for you</span> : null}
      </p>
      <JsonTree name="arguments" value={given} isOpen={false} />
      {result === undefined ? null : <JsonTree name="result" value={unfold(field(result, "content"))} isOpen={false} />}
    </div>
  )
}

const Content = ({ content }: { readonly content: unknown }) => {
  if (Array.isArray(content)) {
    return (
      <Paged items={content} what="parts" weigh={lengthOf}>
        {(parts) => parts.map((part, index) => <Item key={index} item={part} />)}
      </Paged>
    )
  }
  return content === undefined || content === null || content === "" ? null : <Item item={content} />
}

const roles = new Set(["user", "assistant", "system", "tool"])

const Message = ({ message, results, waiting }: {
  readonly message: unknown
  readonly results: Results
  readonly waiting: ReadonlySet<string>
}) => {
  const role = textField(message, "role")
  if (role === undefined) {
    return (
      <li class="message">
        <JsonTree name="message" value={message} isOpen={false} />
      </li>
    )
  }
  const content = field(message, "content")
  return (
    <li class={`message message-${roles.has(role) ? role : "other"}`}>
      <p class="role">
        {role.slice(0, 40)}
        {field(message, "is_error") === true ? <span class="role-error">failed</span> : null}
      </p>
      {role === "tool"
        ? <JsonTree name="result" value={unfold(content)} isOpen={false} />
        : <Content content={content} />}
      <Paged items={listField(message, "tool_calls")} what="tool calls">
        {(shown) => shown.map((call, index) => <Call key={index} {...{ call, results, waiting }} />)}
      </Paged>
    </li>
  )
}

const idOfResult = (message: unknown) =>
  textField(message, "role") === "tool" ? textField(message, "tool_call_id") : undefined

const Messages = ({ task }: { readonly task: Task }) => {
  const all = listField(task.turn, "messages")
  const calls = new Set(all.flatMap((message) => listField(message, "tool_calls").map((call) => textField(call, "id"))))
  const waiting = new Set((task.pending_tool_calls ?? []).map(({ id }) => id))
  const unseen = (task.pending_tool_calls ?? []).filter(({ id }) => !calls.has(id))
  const results = new Map(
    all.flatMap((message) => {
      const id = idOfResult(message)
      return id === undefined ? [] : [[id, message] as const]
    })
  )
  const shown = [
    // A result is shown at its call.
    ...all.filter((message) => !calls.has(idOfResult(message) ?? "")),
    ...unseen.length === 0 ? [] : [{ role: "assistant", content: "", tool_calls: unseen }]
  ]
  if (shown.length === 0) {
    return <Empty title={isTerminal(task) ? "The assistant reported no messages" : "No messages yet"} />
  }
  return (
    <Paged items={shown} what="messages" weigh={lengthOf}>
      {(some) => (
        <ol class="messages" aria-label="Messages">
          {some.map((message, index) => <Message key={index} {...{ message, results, waiting }} />)}
        </ol>
      )}
    </Paged>
  )
}

export const Trace = ({ events, task }: { readonly task: Task; readonly events: ReadonlyArray<TaskEvent> }) => (
  <div class="trace">
    {events.length === 0 ? <Skeleton /> : (
      <>
        <Waterfall task={task} events={events} />
        <Events events={events} />
      </>
    )}
    <Messages task={task} />
  </div>
)
