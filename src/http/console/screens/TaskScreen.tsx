/** One task, updated live: the party that has to act, its result, its run, webhooks and raw JSON. */
import { useEffect, useMemo, useState } from "preact/hooks"
import { NotFoundError, PermissionDeniedError } from "../../client/promise/ApiErrors.ts"
import { isTerminal } from "../../client/promise/TasksResource.ts"
import type { Task } from "../../client/promise/Types.ts"
import { active } from "../active.ts"
import { toolsOf } from "../answers.ts"
import { client } from "../api.ts"
import { AnswerForm } from "../components/AnswerForm.tsx"
import { Age, CopyButton, Fact, Moment, placeOf, shortId, Status, Took, wordOf } from "../components/Basics.tsx"
import { CancelTask, Confirm } from "../components/Dialog.tsx"
import { Icon } from "../components/Icon.tsx"
import { JsonTree } from "../components/JsonTree.tsx"
import { Empty, Loaded, Screen } from "../components/Screen.tsx"
import { Tabs } from "../components/Tabs.tsx"
import { LongText } from "../components/Text.tsx"
import { askOf } from "../json.ts"
import { useKeys } from "../keys.ts"
import { followTask, type LiveTask } from "../live.ts"
import { announce, copy, notify } from "../messages.ts"
import { usePoll } from "../poll.ts"
import { ownLabels, relatedTo } from "../related.ts"
import { href, navigate, queryOf } from "../Router.ts"
import { served } from "../served.ts"
import { Asked } from "./task/Asked.tsx"
import { Reply } from "./task/Reply.tsx"
import { Result } from "./task/Result.tsx"
import { Trace } from "./task/Trace.tsx"
import { Webhooks } from "./task/Webhooks.tsx"

const Cancel = ({ onClose, onDone, uuid }: {
  readonly uuid: string
  readonly onDone: () => void
  readonly onClose: () => void
}) => {
  const cancel = async (options: { readonly reason?: string }) => {
    await client.tasks.stop(uuid, options)
    notify("Task canceled")
    active.refresh()
    onDone()
  }
  return (
    <CancelTask onCancel={cancel} onClose={onClose}>
      The assistant stops its work, and the task ends as canceled.
    </CancelTask>
  )
}

const Delete = ({ onClose, uuid }: { readonly uuid: string; readonly onClose: () => void }) => {
  const remove = async () => {
    await client.tasks.delete(uuid)
    notify("Task deleted")
    navigate("/tasks")
  }
  return (
    <Confirm title="Delete this task?" action="Delete the task" isDangerous onConfirm={remove} onClose={onClose}>
      <p>Its result is deleted, and its pending webhooks are not sent. This cannot be undone.</p>
    </Confirm>
  )
}

const needs = {
  acceptance: "to accept the task",
  result: "to deliver the result",
  tool_results: "to answer the tool calls",
  room: "to have room"
}

/** The party that has to act. */
const Present = ({ task: { waiting_on: waiting } }: { readonly task: Task }) =>
  waiting == null ? null : (
    <Fact term={waiting.party === "queue" ? "Queued" : "Waits for"}>
      {waiting.party === "queue"
        ? placeOf(waiting)
        : `${waiting.party === "client" ? "you" : "the core"} ${needs[waiting.for]}`}, until{" "}
      <Moment at={waiting.until} /> (<Age at={waiting.until} />)
    </Fact>
  )

const Past = ({ task }: { readonly task: Task }) => {
  const { completed_at: end, created_at: start } = task
  const labels = Object.entries(ownLabels(task.metadata ?? {}))
  return (
    <>
      <Fact term="Created">
        <Moment at={start} />
      </Fact>
      <Fact term={end === null ? "Running for" : "Took"}>
        <Took from={start} to={end} />
      </Fact>
      {served().map(({ name, ofTask }) => ofTask === undefined ? null : <ofTask.Facts key={name} task={task} />)}
      {labels.length === 0 ? null : (
        <Fact term="Labels">
          {labels.map(([key, value]) => (
            <a key={key} class="label" href={href(`/tasks${queryOf({ label: `${key}: ${value}` })}`)}>
              <bdi>{key}</bdi>: <bdi>{value}</bdi>
            </a>
          ))}
        </Fact>
      )}
    </>
  )
}

/** Tasks of one kind that are shown. */
const maxRelated = 5

const relatedFrom = async (uuid: string, signal: AbortSignal) => {
  const words = [["continues", "Continued by"], ["repeats", "Run again as"]] as const
  const found = await Promise.all(
    words.map(async ([relation, word]) => {
      const options = { metadata: { [relation]: uuid }, per_page: maxRelated, maxRetries: 0, signal }
      const { data } = await client.tasks.list(options)
      return data.map((task) => ({ word, uuid: task.uuid }))
    })
  )
  return found.flat()
}

/** The tasks that this one continues or repeats, and those that continue or repeat it. */
const Related = ({ task }: { readonly task: Task }) => {
  const { state } = usePoll((signal) => relatedFrom(task.uuid, signal), () => Infinity, [task.uuid])
  const all = [...relatedTo(task), ...state.value.data ?? []]
  return (
    <>
      {[...Map.groupBy(all, ({ word }) => word)].map(([word, some]) => (
        <Fact key={word} term={word}>
          {some.map(({ uuid }) => (
            <a key={uuid} class="sample" href={href(`/tasks/${uuid}`)} title={uuid}>
              <code>{shortId(uuid)}</code>
            </a>
          ))}
        </Fact>
      ))}
    </>
  )
}

const Raw = ({ task }: { readonly task: Task }) => (
  <>
    <p class="toolbar">
      <button type="button" class="button" onClick={() => void copy("JSON", JSON.stringify(task, null, 2))}>
        <Icon name="copy" />Copy JSON
      </button>
    </p>
    <JsonTree name="task" value={task} />
  </>
)

/** The error of a failed task, or the reason why a task was canceled. */
const Ending = ({ isCanceled, text }: { readonly text: string; readonly isCanceled: boolean }) => (
  <div class={isCanceled ? "task-error task-reason" : "task-error"}>
    <Icon name={isCanceled ? "canceled" : "failed"} />
    <div>
      {isCanceled ? <p class="detail">Reason</p> : null}
      <LongText text={text}>{(shown) => <p dir="auto">{shown}</p>}</LongText>
    </div>
  </div>
)

/** What a task that waits for the user shows first: the words of the model, its question, and the form of the answer. */
const Question = ({ live, task }: { readonly task: Task; readonly live: LiveTask }) => (
  <>
    <section class="said" aria-label="What the model said" tabIndex={0}>
      <Result task={task} />
    </section>
    <AnswerForm
      task={task}
      tools={toolsOf(task)}
      onDone={() => {
        live.refresh()
        // The form goes away with the question.
        document.querySelector<HTMLElement>("main h1")?.focus()
      }}
    />
  </>
)

const ResultAndReply = ({ live, task }: { readonly task: Task; readonly live: LiveTask }) => (
  <>
    <Result task={task} text={live.text.value} />
    {task.status === "completed" && task.request != null ? <Reply task={task} request={task.request} /> : null}
  </>
)

const Content = ({ live, task }: { readonly task: Task; readonly live: LiveTask }) => {
  useEffect(() => announce(`Task is ${wordOf(task.status).toLowerCase()}`), [task.status])
  return (
    <div class="task">
      <Asked request={task.request} isTitled>
        <Status status={task.status} waiting={task.waiting_on} />
        {task.status !== "interrupted" || task.waiting_on == null ? null : (
          <span class="deadline">
            ends <Age at={task.waiting_on.until} />
          </span>
        )}
        <span>
          <code title={task.uuid}>{shortId(task.uuid)}</code> <CopyButton what="uuid" text={() => task.uuid} />
        </span>
      </Asked>
      <aside class="card task-facts task-past" aria-label="Facts">
        <dl class="facts">
          <Present task={task} />
          <Past task={task} />
          <Related task={task} />
        </dl>
      </aside>
      {task.error === null ? null : <Ending text={task.error} isCanceled={task.status === "canceled"} />}
      {task.status === "interrupted" ? <Question task={task} live={live} /> : null}
      <Tabs
        label="Parts of the task"
        tabs={[
          ...task.status === "interrupted"
            ? []
            : [{ id: "result", label: "Result", content: () => <ResultAndReply task={task} live={live} /> }],
          { id: "run", label: "Run", content: () => <Trace task={task} events={live.events.value} /> },
          {
            id: "webhooks",
            label: "Webhooks",
            content: () => <Webhooks uuid={task.uuid} isEnded={isTerminal(task)} />
          },
          { id: "raw", label: "Raw", content: () => <Raw task={task} /> }
        ]}
      />
    </div>
  )
}

const refusal = (error: unknown): string | undefined =>
  error instanceof NotFoundError
    ? "There is no such task. Ended tasks are deleted after some time."
    : error instanceof PermissionDeniedError
    ? "This task belongs to another user."
    : undefined

const Actions = ({ onCancel, onDelete, task }: {
  readonly task: Task
  readonly onCancel: () => void
  readonly onDelete: () => void
}) => (
  <>
    <button type="button" class="button" onClick={() => void copy("Link", location.origin + location.pathname)}>
      <Icon name="link" />Copy link
    </button>
    {task.request == null ? null : (
      <a class="button" href={href(`/new?again=${task.uuid}`)}>
        <Icon name="again" />Run again
      </a>
    )}
    {task.status !== "completed" || task.request != null
      ? null
      : <a class="button" href={href(`/new?after=${task.uuid}`)}>Continue</a>}
    {isTerminal(task)
      ? <button type="button" class="button danger" onClick={onDelete}>Delete…</button>
      : <button type="button" class="button danger" onClick={onCancel}>Cancel…</button>}
  </>
)

/** Characters of the request in the title of the tab. */
const maxTitle = 60

/** The name of the tab: the status, and what was asked. */
const titleOf = (task: Task): string =>
  `${wordOf(task.status)}: ${askOf(task.request, maxTitle) || `Task ${shortId(task.uuid)}`}`

export const TaskScreen = ({ uuid }: { readonly uuid: string }) => {
  const live = useMemo(() => followTask(uuid), [uuid])
  const [isCanceling, setCanceling] = useState(false)
  const [isDeleting, setDeleting] = useState(false)
  useEffect(() => live.start(), [live])
  useKeys({ r: live.refresh })
  const polled = live.task.value
  const refused = polled.data === undefined ? refusal(polled.error) : undefined
  return (
    <Screen
      title={polled.data === undefined ? `Task ${shortId(uuid)}` : titleOf(polled.data)}
      heading={<bdi class="title">{askOf(polled.data?.request) || `Task ${shortId(uuid)}`}</bdi>}
      actions={polled.data === undefined ?
        undefined :
        <Actions task={polled.data} onCancel={() => setCanceling(true)} onDelete={() => setDeleting(true)} />}
    >
      {refused === undefined
        ? <Loaded polled={polled} refresh={live.refresh}>{(task) => <Content task={task} live={live} />}</Loaded>
        : (
          <Empty title={refused}>
            <a class="button" href={href("/tasks")}>To the tasks</a>
          </Empty>
        )}
      {isCanceling ? <Cancel uuid={uuid} onDone={live.refresh} onClose={() => setCanceling(false)} /> : null}
      {isDeleting ? <Delete uuid={uuid} onClose={() => setDeleting(false)} /> : null}
    </Screen>
  )
}
