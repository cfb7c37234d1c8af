/** All interrupted tasks with their forms, the one that ends soonest first. */
import type { Task } from "../../client/promise/Types.ts"
import { active, listInterval } from "../active.ts"
import { client, readTask, type TaskVersion } from "../api.ts"
import { AnswerForm } from "../components/AnswerForm.tsx"
import { Age, shortId } from "../components/Basics.tsx"
import { Empty, Loaded, Screen } from "../components/Screen.tsx"
import { askOf, listField } from "../json.ts"
import { useKeys } from "../keys.ts"
import { usePoll } from "../poll.ts"
import { href } from "../Router.ts"
import { schemasOf } from "../schemaForm.ts"
import { Result } from "./task/Result.tsx"

/** Tasks that are read with their deadlines; more are in the task list. */
const maxShown = 25

interface Interrupts {
  readonly tasks: ReadonlyArray<Task>
  readonly total: number
}

const deadlineOf = ({ waiting_on: on }: Task): string => on?.until ?? ""

const readAll = () => {
  /** Unchanged tasks are not sent again. */
  let known = new Map<string, TaskVersion>()
  return async (signal: AbortSignal): Promise<Interrupts> => {
    const { data, meta } = await client.tasks.list({ status: "interrupted", per_page: maxShown, maxRetries: 0, signal })
    const versions = await Promise.all(data.map(async ({ uuid }) => {
      const before = known.get(uuid)
      return await readTask(uuid, before?.etag ?? null, signal) ?? before
    }))
    const found = versions.filter((version) => version !== undefined)
    known = new Map(found.map((version) => [version.task.uuid, version]))
    const tasks = found.map(({ task }) => task).filter(({ status }) => status === "interrupted")
    return {
      tasks: tasks.toSorted((a, b) => deadlineOf(a) < deadlineOf(b) ? -1 : 1),
      total: meta.total
    }
  }
}

const Entry = ({ onDone, task }: { readonly task: Task; readonly onDone: () => void }) => (
  <section class="entry" aria-labelledby={`task-${task.uuid}`}>
    <header>
      <h2 id={`task-${task.uuid}`}>
        <a href={href(`/tasks/${task.uuid}`)} data-row="" title={task.uuid}>
          <bdi>{askOf(task.request, 120) || `Task ${shortId(task.uuid)}`}</bdi>
        </a>
      </h2>
      {task.waiting_on == null ? null : (
        <p class="deadline">
          ends <Age at={task.waiting_on.until} />
        </p>
      )}
    </header>
    {listField(task.turn, "output").length === 0 ?
      null :
      (
        <section class="said" aria-label="What the model said" tabIndex={0}>
          <Result task={task} />
        </section>
      )}
    <AnswerForm task={task} schemas={schemasOf(task)} onDone={onDone} />
  </section>
)

export const Inbox = () => {
  const { refresh, state } = usePoll(readAll(), () => listInterval.live, [])
  useKeys({ r: refresh })
  const onDone = () => {
    refresh()
    active.refresh()
  }
  return (
    <Screen title="Inbox">
      <p class="lead">Tasks that wait for you, the one that ends soonest first.</p>
      <Loaded polled={state.value} refresh={refresh}>
        {({ tasks, total }) => (
          <>
            {tasks.length === 0
              ? (
                <Empty title="Nothing waits for you">
                  <p>A task appears here when its model calls one of your tools.</p>
                </Empty>
              )
              : tasks.map((task) => <Entry key={task.uuid} task={task} onDone={onDone} />)}
            {total <= maxShown ? null : (
              <p>
                <a href={href("/tasks?status=interrupted")}>All {total} interrupted tasks</a>
              </p>
            )}
          </>
        )}
      </Loaded>
    </Screen>
  )
}
