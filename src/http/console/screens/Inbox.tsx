/** What waits for the user: a list of tasks, the one that ends soonest first, and the question of one of them. */
import { useEffect, useRef, useState } from "preact/hooks"
import type { TaskPage } from "../../client/promise/TaskPages.ts"
import type { Task, TaskSummary } from "../../client/promise/Types.ts"
import { active, listInterval } from "../active.ts"
import { toolsOf } from "../answers.ts"
import { client } from "../api.ts"
import { AnswerForm } from "../components/AnswerForm.tsx"
import { Age, IconButton, shortId } from "../components/Basics.tsx"
import { Confirm } from "../components/Dialog.tsx"
import { Empty, Loaded, Screen } from "../components/Screen.tsx"
import { listField } from "../json.ts"
import { useKeys } from "../keys.ts"
import { notify } from "../messages.ts"
import { usePoll } from "../poll.ts"
import { readTask, type TaskVersion } from "../readTask.ts"
import { href, query, reveal, setQuery } from "../Router.ts"
import { Asked } from "./task/Asked.tsx"
import { Result } from "./task/Result.tsx"

/** The service's own limit of a page. */
const maxListed = 100

const CancelAll = ({ count, onClose, onDone }: {
  readonly count: number
  readonly onClose: () => void
  readonly onDone: () => void
}) => {
  const cancel = async () => {
    const { canceled } = await client.tasks.cancelInterrupted()
    notify(canceled === 1 ? "1 task canceled" : `${canceled} tasks canceled`)
    onDone()
  }
  return (
    <Confirm
      title={count === 1 ? "Cancel 1 interrupted task?" : `Cancel ${count} interrupted tasks?`}
      action="Cancel them"
      isDangerous
      onConfirm={cancel}
      onClose={onClose}
    >
      <p>All of your interrupted tasks end as canceled. Their tool calls are not answered. This cannot be undone.</p>
    </Confirm>
  )
}

/** Characters of an excerpt of the service: a request of so many goes on. */
const maxExcerpt = 120

const nameOf = ({ excerpt, uuid }: TaskSummary) =>
  excerpt == null ? `Task ${shortId(uuid)}` : excerpt + (excerpt.length < maxExcerpt ? "" : "…")

/** The tools that wait, as in `approve_refund, choose_shipping`. */
const callsOf = ({ pending_tool_calls: calls = [] }: TaskSummary) => {
  const names = [...new Set(calls.map(({ name }) => name.slice(0, 100)))]
  return names.length > 3 ? `${names.slice(0, 3).join(", ")}, …` : names.join(", ")
}

const List = ({ shown, tasks }: { readonly tasks: ReadonlyArray<TaskSummary>; readonly shown: string }) => {
  const ref = useRef<HTMLOListElement>(null)
  useEffect(() => reveal(ref.current?.querySelector("[aria-current]")?.parentElement), [shown])
  return (
    <nav class="questions" aria-label="Questions">
      <ol ref={ref}>
        {tasks.map((task) => (
          <li key={task.uuid}>
            <a href={href(`/inbox?task=${task.uuid}`)} aria-current={task.uuid === shown ? "true" : undefined}>
              <bdi class="question-name">{nameOf(task)}</bdi>
              <span class="detail">
                <code>{callsOf(task)}</code>
                {task.waiting_on == null ? null : <Age at={task.waiting_on.until} />}
              </span>
            </a>
          </li>
        ))}
      </ol>
    </nav>
  )
}

const Content = ({ onDone, task }: { readonly task: Task; readonly onDone: () => void }) => (
  <>
    <Asked request={task.request} isTitled />
    {listField(task.turn, "output").length === 0 ?
      null :
      (
        <section class="said" aria-label="What the model said" tabIndex={0}>
          <Result task={task} />
        </section>
      )}
    {task.status === "interrupted"
      ? <AnswerForm task={task} tools={toolsOf(task)} onDone={onDone} />
      : <Empty title="This task no longer waits" />}
  </>
)

const Question = ({ onDone, task: { uuid } }: { readonly task: TaskSummary; readonly onDone: () => void }) => {
  /** An unchanged task is not sent again. */
  const known = useRef<TaskVersion | undefined>(undefined)
  const { refresh, state } = usePoll(
    async (signal): Promise<Task> => {
      known.current = await readTask(uuid, known.current?.etag ?? null, signal) ?? known.current
      if (known.current === undefined) throw new Error("The task has no content")
      return known.current.task
    },
    () => listInterval.live,
    [uuid]
  )
  return <Loaded polled={state.value} refresh={refresh}>{(task) => <Content task={task} onDone={onDone} />}</Loaded>
}

const Questions = ({ onDone, page: { data } }: { readonly page: TaskPage; readonly onDone: () => void }) => {
  const deadlineOf = ({ waiting_on: waiting }: TaskSummary) => waiting?.until ?? ""
  const tasks = data.toSorted((a, b) => deadlineOf(a) < deadlineOf(b) ? -1 : 1)
  /** The one that is shown stays, also when another one ends sooner. */
  const pinned = useRef<string | undefined>(undefined)
  const wanted = query.value.get("task") ?? pinned.current
  const index = Math.max(0, tasks.findIndex(({ uuid }) => uuid === wanted))
  const task = tasks[index]
  pinned.current = task?.uuid
  const heading = useRef<HTMLHeadingElement>(null)
  const isMoved = useRef(false)
  useEffect(() => {
    if (isMoved.current) heading.current?.focus({ preventScroll: true })
    isMoved.current = false
  }, [task?.uuid])
  const move = (step: number) => {
    const next = tasks[index + step]
    if (next === undefined) return
    isMoved.current = true
    setQuery("task", next.uuid, { replace: true })
    scrollTo(0, 0)
  }
  useKeys({ j: () => move(1), k: () => move(-1) })
  if (task === undefined) {
    return (
      <Empty title="Nothing waits for you">
        <p>A task appears here when its model calls one of your tools.</p>
        <a class="button" href={href("/new?example=tool")}>Try it with an example tool</a>
      </Empty>
    )
  }
  const done = () => {
    // The next question, or the one before the last.
    if (index + 1 < tasks.length) move(1)
    else if (index > 0) move(-1)
    else document.querySelector<HTMLElement>("main h1")?.focus()
    onDone()
  }
  return (
    <div class="inbox">
      <List tasks={tasks} shown={task.uuid} />
      <section class="question" aria-labelledby="question">
        <header>
          <h2 id="question" ref={heading} tabIndex={-1}>
            <a class="title" href={href(`/tasks/${task.uuid}`)} title={task.uuid}>
              <bdi>{nameOf(task)}</bdi>
            </a>
          </h2>
          {task.waiting_on == null ? null : (
            <p class="deadline">
              ends <Age at={task.waiting_on.until} />
            </p>
          )}
          {tasks.length === 1 ? null : (
            <p class="pager">
              <IconButton icon="previous" label="Previous question" title="k" onClick={() => move(-1)} />
              <span>{index + 1} of {tasks.length}</span>
              <IconButton icon="chevron" label="Next question" title="j" onClick={() => move(1)} />
            </p>
          )}
        </header>
        <Question key={task.uuid} task={task} onDone={done} />
      </section>
    </div>
  )
}

export const Inbox = () => {
  const [isAsking, setAsking] = useState(false)
  const { refresh, state } = usePoll<TaskPage>(
    (signal) =>
      client.tasks.list({
        status: "interrupted",
        per_page: maxListed,
        include: ["excerpt", "waiting_on"],
        maxRetries: 0,
        signal
      }),
    () => listInterval.live,
    []
  )
  useKeys({ r: refresh })
  const onDone = () => {
    refresh()
    active.refresh()
  }
  const total = state.value.data?.meta.total ?? 0
  return (
    <Screen
      title="Inbox"
      actions={total === 0
        ? undefined
        : <button type="button" class="button" onClick={() => setAsking(true)}>Cancel all interrupted</button>}
    >
      <Loaded polled={state.value} refresh={refresh}>
        {(page) => (
          <>
            <Questions page={page} onDone={onDone} />
            {total <= maxListed ? null : (
              <p>
                <a href={href("/tasks?status=interrupted")}>All {total} interrupted tasks</a>
              </p>
            )}
          </>
        )}
      </Loaded>
      {isAsking ? <CancelAll count={total} onDone={onDone} onClose={() => setAsking(false)} /> : null}
    </Screen>
  )
}
