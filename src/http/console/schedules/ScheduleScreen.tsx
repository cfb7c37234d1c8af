/** One schedule: when it fires next, what it does, and what became of its moments. */
import { useState } from "preact/hooks"
import { NotFoundError, PermissionDeniedError } from "../../client/promise/ApiErrors.ts"
import type { PageOf } from "../../client/promise/TaskPages.ts"
import type { Schedule, ScheduleRun, TaskStatus } from "../../client/promise/Types.ts"
import { useAction } from "../actions.ts"
import { active } from "../active.ts"
import { client } from "../api.ts"
import { Age, CopyButton, Fact, Moment, shortId, Status, TextField } from "../components/Basics.tsx"
import { Confirm } from "../components/Dialog.tsx"
import { Icon } from "../components/Icon.tsx"
import { Values } from "../components/JsonTree.tsx"
import { chosenPage, Pages } from "../components/Pages.tsx"
import { Empty, Loaded, Problem, Screen } from "../components/Screen.tsx"
import { Cell, Rows } from "../components/Table.tsx"
import { useKeys } from "../keys.ts"
import { notify } from "../messages.ts"
import { usePoll } from "../poll.ts"
import { href, navigate } from "../Router.ts"
import { Asked } from "../screens/task/Asked.tsx"
import { Moments, RunOutcome, State, Strip } from "./Outcomes.tsx"
import { rhythmWords } from "./schedules.ts"
import { readStatuses } from "./statuses.ts"

const perPage = 30
/** Characters of a reason: the service's limit. */
const maxReason = 1000
/** Milliseconds between polls: near its next moment, and otherwise. */
const intervals = { near: 3000, far: 15_000 }
const isNear = ({ next_at: next }: Schedule) => next !== null && Date.parse(next) - Date.now() < 60_000

interface Read {
  readonly schedule: Schedule
  readonly runs: PageOf<ScheduleRun>
  readonly statuses: Statuses
}

/** Those of the schedule's newest tasks, by their ids. A deleted task has none. */
type Statuses = ReadonlyMap<string, TaskStatus>

const statusOf = ({ task_uuid: uuid }: ScheduleRun, statuses: Statuses) =>
  uuid === null ? undefined : statuses.get(uuid)

const overlaps = {
  skip: "is left out",
  queue: "waits for its end",
  allow: "starts beside it"
} as const

const Facts = ({ schedule }: { readonly schedule: Schedule }) => (
  <dl class="facts">
    <Fact term="When">
      {rhythmWords(schedule)} {schedule.cron === null ? null : <code class="detail">{schedule.cron}</code>}
    </Fact>
    <Fact term="Next">
      {schedule.upcoming === undefined || schedule.upcoming.length === 0
        ? schedule.state === "paused" ? "Nothing until it is resumed" : "Nothing more"
        : <Moments moments={schedule.upcoming} timezone={schedule.timezone} />}
    </Fact>
    <Fact term="Last">{schedule.last_at === null ? "never" : <Age at={schedule.last_at} />}</Fact>
    {([["From", schedule.starts_at], ["Until", schedule.ends_at]] as const).map(([term, at]) =>
      at === null ? null : (
        <Fact key={term} term={term}>
          <Moment at={at} />
        </Fact>
      )
    )}
    <Fact term="While the task before is active">a moment {overlaps[schedule.overlap]}</Fact>
    {schedule.pause_after_failures === null
      ? null
      : <Fact term="Pauses after">{schedule.pause_after_failures} failures in a row</Fact>}
    {schedule.key === null ? null : (
      <Fact term="Key">
        <bdi>{schedule.key}</bdi>
      </Fact>
    )}
  </dl>
)

const Run = ({ run, status }: { readonly run: ScheduleRun; readonly status: TaskStatus | undefined }) => (
  <tr>
    <td class="cell-status">{status === undefined ? <RunOutcome {...run} /> : <Status status={status} />}</td>
    <th scope="row" class="cell-moment">
      <Moment at={run.scheduled_for} />
    </th>
    <td class="cell-detail">
      <bdi>{(run.error ?? "").slice(0, 300)}</bdi>
    </td>
    <Cell label="Started" class="cell-age">{run.started_at === null ? "–" : <Age at={run.started_at} />}</Cell>
    <Cell label="Task" class="cell-task">
      {run.task_uuid === null ? "–" : (
        <a href={href(`/tasks/${run.task_uuid}`)} data-row="" title={run.task_uuid}>
          <code>{shortId(run.task_uuid)}</code>
        </a>
      )}
    </Cell>
  </tr>
)

const Content = ({ read: { runs, schedule, statuses } }: { readonly read: Read }) => {
  const { assistant_id: _, input: __, ...options } = schedule.task
  return (
    <div class="task">
      {schedule.paused_reason === null ? null : (
        <div class="task-error task-reason">
          <Icon name="interrupted" />
          <div>
            <p class="detail">Paused</p>
            <p dir="auto">{schedule.paused_reason.message}</p>
          </div>
        </div>
      )}
      <Asked request={schedule.task}>
        <State state={schedule.state} />
      </Asked>
      <aside class="card task-facts" aria-label="Facts">
        <Facts schedule={schedule} />
      </aside>
      <section class="section" aria-labelledby="runs">
        <h2 id="runs">Runs</h2>
        {runs.data.length === 0
          ? <p class="hint">None yet. Runs are kept for 30 days.</p>
          : (
            <>
              {runs.meta.current_page > 1 ? null : (
                <Strip
                  moments={runs.data.map((run) => ({ ...run, outcome: statusOf(run, statuses) ?? run.outcome }))}
                />
              )}
              <Rows caption="Runs, newest first" columns={["Outcome", "Moment", "Detail", "Started", "Task"]}>
                {runs.data.map((run) => <Run key={run.scheduled_for} run={run} status={statusOf(run, statuses)} />)}
              </Rows>
              <Pages meta={runs.meta} one="run" many="runs" />
            </>
          )}
      </section>
      {Object.keys(options).length === 0 ? null : (
        <details class="more">
          <summary>More options of its tasks</summary>
          <Values value={options} />
        </details>
      )}
    </div>
  )
}

const Pause = ({ id, onClose, onDone }: DialogOf) => {
  const [reason, setReason] = useState("")
  const pause = async () => {
    await client.schedules.pause(id, reason.trim() === "" ? undefined : reason.trim())
    notify("Schedule paused")
    onDone()
  }
  return (
    <Confirm title="Pause this schedule?" action="Pause" onConfirm={pause} onClose={onClose}>
      <p>It makes no tasks until it is resumed. What it misses meanwhile is not made up for.</p>
      <TextField label="Reason" maxLength={maxReason} value={reason} onText={setReason} />
    </Confirm>
  )
}

const Delete = ({ id, onClose }: Omit<DialogOf, "onDone">) => {
  const remove = async () => {
    await client.schedules.delete(id)
    notify("Schedule deleted")
    navigate("/schedules")
  }
  return (
    <Confirm
      title="Delete this schedule?"
      action="Delete the schedule"
      isDangerous
      onConfirm={remove}
      onClose={onClose}
    >
      <p>Its runs are deleted too. Its tasks stay. This cannot be undone.</p>
    </Confirm>
  )
}

interface DialogOf {
  readonly id: string
  readonly onClose: () => void
  readonly onDone: () => void
}

const Actions = ({ onError, onOpen, onRefresh, schedule: { id, state } }: {
  readonly schedule: Schedule
  readonly onRefresh: () => void
  readonly onOpen: (dialog: "pause" | "delete") => void
  readonly onError: (error: unknown) => void
}) => {
  const act = (action: () => Promise<unknown>) => async () => {
    onError(undefined)
    try {
      await action()
    } catch (error) {
      onError(error)
    }
    onRefresh()
  }
  const trigger = useAction(act(async () => {
    const { uuid } = await client.schedules.trigger(id)
    notify(`Task ${shortId(uuid)} created`)
    active.refresh()
  }))
  const resume = useAction(act(async () => {
    await client.schedules.resume(id)
    notify("Schedule resumed")
  }))
  return (
    <>
      {state === "ended" ?
        null :
        (
          <button type="button" class="button" aria-disabled={trigger.isBusy} onClick={() => trigger.run()}>
            Run now
          </button>
        )}
      {state === "active" ? <button type="button" class="button" onClick={() => onOpen("pause")}>Pause…</button> : null}
      {state === "paused"
        ? (
          <button type="button" class="button" aria-disabled={resume.isBusy} onClick={() => resume.run()}>
            Resume
          </button>
        )
        : null}
      <a class="button" href={href(`/schedules/${id}/edit`)}>Edit</a>
      <button type="button" class="button danger" onClick={() => onOpen("delete")}>Delete…</button>
    </>
  )
}

export const refusal = (error: unknown): string | undefined =>
  error instanceof NotFoundError
    ? "There is no such schedule. Ended schedules are deleted after 30 days."
    : error instanceof PermissionDeniedError
    ? "This schedule belongs to another user."
    : undefined

export const Refused = ({ text }: { readonly text: string }) => (
  <Empty title={text}>
    <a class="button" href={href("/schedules")}>To the schedules</a>
  </Empty>
)

export const ScheduleScreen = ({ id }: { readonly id: string }) => {
  const [dialog, setDialog] = useState<"pause" | "delete">()
  const [error, setError] = useState<unknown>()
  const page = chosenPage()
  const { refresh, state } = usePoll(
    async (signal): Promise<Read> => {
      const options = { maxRetries: 0, signal }
      const [schedule, runs, statuses] = await Promise.all([
        client.schedules.get(id, options),
        client.schedules.runs(id, { ...options, page, per_page: perPage }),
        readStatuses(id, signal)
      ])
      return { schedule, runs, statuses }
    },
    ({ schedule }) => isNear(schedule) ? intervals.near : intervals.far,
    [id, page]
  )
  useKeys({ r: refresh })
  const schedule = state.value.data?.schedule
  const refused = schedule === undefined ? refusal(state.value.error) : undefined
  const close = () => setDialog(undefined)
  return (
    <Screen
      title={schedule?.name ?? schedule?.key ?? `Schedule ${shortId(id)}`}
      heading={<bdi>{schedule?.name ?? schedule?.key ?? `Schedule ${shortId(id)}`}</bdi>}
      actions={schedule === undefined ? undefined : (
        <>
          <CopyButton what="id" text={() => id} />
          <Actions schedule={schedule} onRefresh={refresh} onOpen={setDialog} onError={setError} />
        </>
      )}
    >
      <Problem error={error} />
      {refused === undefined
        ? <Loaded polled={state.value} refresh={refresh}>{(read) => <Content read={read} />}</Loaded>
        : <Refused text={refused} />}
      {dialog === "pause" ? <Pause id={id} onClose={close} onDone={refresh} /> : null}
      {dialog === "delete" ? <Delete id={id} onClose={close} /> : null}
    </Screen>
  )
}
