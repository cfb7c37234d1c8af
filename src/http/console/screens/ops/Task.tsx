/** One task of any user: what it waits for, where it runs, its history and its webhooks. Its content is shown on request. */
import { useState } from "preact/hooks"
import type * as Views from "../../../contract/OperatorSchemas.ts"
import { Age, CopyButton, Moment, Status } from "../../components/Basics.tsx"
import { Confirm } from "../../components/Dialog.tsx"
import { JsonTree } from "../../components/JsonTree.tsx"
import { Columns, Text } from "../../components/Operators.tsx"
import { Loaded, Problem, Screen } from "../../components/Screen.tsx"
import { useKeys } from "../../keys.ts"
import { notify } from "../../messages.ts"
import { get, intervals, mayChange, post } from "../../operator.ts"
import { usePoll } from "../../poll.ts"
import { href } from "../../Router.ts"
import { DeliveryTable } from "./Deliveries.tsx"

type Detail = typeof Views.OperatorTaskDetailView.Type
type Content = typeof Views.ContentView.Type

const bytes = (count: number | null) => count === null ? "not stored" : `${count.toLocaleString("en")} bytes`

const Facts = ({ task }: { readonly task: Detail }) => (
  <dl class="facts">
    <div>
      <dt>User</dt>
      <dd>
        <a href={href(`/ops/tasks?sub=${encodeURIComponent(task.sub)}`)}>
          <Text>{task.sub}</Text>
        </a>
      </dd>
    </div>
    <div>
      <dt>Created</dt>
      <dd>
        <Moment at={task.created_at} />
      </dd>
    </div>
    <div>
      <dt>{task.completed_at === null ? "Time limit" : "Ended"}</dt>
      <dd>{task.completed_at === null ? <Age at={task.deadline_at} /> : <Moment at={task.completed_at} />}</dd>
    </div>
    {task.waiting_on === null
      ? null
      : (
        <div>
          <dt>Waits for the {task.waiting_on.party}</dt>
          <dd>
            {task.waiting_on.for.replaceAll("_", " ")}, due <Age at={task.waiting_on.until} />
          </dd>
        </div>
      )}
    <div>
      <dt>Shard</dt>
      <dd>{task.shard}, {task.owner ?? "no owner"}</dd>
    </div>
    <div>
      <dt>Run</dt>
      <dd>
        <code>{task.run_id}</code>
      </dd>
    </div>
    <div>
      <dt>Request, turn</dt>
      <dd>{bytes(task.bytes.request)}, {bytes(task.bytes.turn)}</dd>
    </div>
    <div>
      <dt>Webhooks to</dt>
      <dd>{task.callback_origin ?? "–"}</dd>
    </div>
  </dl>
)

const Events = ({ events }: Pick<Detail, "events">) => (
  <div class="scroll" tabIndex={0} role="region" aria-label="Events">
    <table class="data">
      <caption class="visually-hidden">Events, oldest first</caption>
      <Columns names={["Revision", "Event", "Status", "Moment"]} />
      <tbody>
        {events.map(({ occurred_at: at, revision, status, type }) => (
          <tr key={revision}>
            <th scope="row">{revision}</th>
            <td>{type}</td>
            <td>
              <Status status={status} />
            </td>
            <td>
              <Moment at={at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)

const ContentSection = ({ uuid }: { readonly uuid: string }) => {
  const [content, setContent] = useState<Content>()
  const [error, setError] = useState<unknown>()
  const show = async () => {
    try {
      setError(undefined)
      setContent(await get<Content>(`/tasks/${uuid}/content`))
    } catch (failure) {
      setError(failure)
    }
  }
  return (
    <section class="section" aria-label="Content">
      <h2>Content</h2>
      {content === undefined
        ? (
          <div>
            <button type="button" class="button" onClick={() => void show()}>Show content</button>
            <p class="hint">The service logs who reads it.</p>
          </div>
        )
        : <JsonTree value={content} />}
      {error === undefined ? null : <Problem error={error} />}
    </section>
  )
}

const Cancel = ({ onClose, onDone, task }: {
  readonly task: Detail
  readonly onClose: () => void
  readonly onDone: () => void
}) => {
  const [reason, setReason] = useState("")
  const cancel = async () => {
    await post(`/tasks/${task.uuid}/cancel`, reason === "" ? {} : { reason })
    notify("Task canceled")
    onDone()
  }
  return (
    <Confirm title="Cancel this task?" action="Cancel the task" isDangerous onConfirm={cancel} onClose={onClose}>
      <p>
        It belongs to{" "}
        <strong>
          <Text>{task.sub}</Text>
        </strong>. The core stops its run. This cannot be undone.
      </p>
      <div class="field">
        <label for="reason">
          Reason <span class="optional">optional</span>
        </label>
        <input
          id="reason"
          maxLength={1000}
          autocomplete="off"
          value={reason}
          onInput={(event) => setReason(event.currentTarget.value)}
        />
      </div>
    </Confirm>
  )
}

export const OpsTask = ({ uuid }: { readonly uuid: string }) => {
  const [isAsking, setAsking] = useState(false)
  const { refresh, state } = usePoll<Detail>(
    (signal) => get(`/tasks/${encodeURIComponent(uuid)}`, signal),
    ({ completed_at: end }) => end === null ? intervals.overview : intervals.list,
    [uuid]
  )
  useKeys({ r: refresh })
  const task = state.value.data
  const mayCancel = task !== undefined && task.completed_at === null && mayChange()
  return (
    <Screen
      title={`Task ${uuid.slice(0, 8)}`}
      heading={
        <>
          Task <code>{uuid}</code> <CopyButton what="uuid" text={() => uuid} />
        </>
      }
      actions={mayCancel
        ? <button type="button" class="button danger" onClick={() => setAsking(true)}>Cancel</button>
        : undefined}
    >
      <Loaded polled={state.value} refresh={refresh}>
        {(found) => (
          <>
            <p>
              <Status status={found.status} />
            </p>
            {found.error === null ? null : (
              <div class={`task-error ${found.status === "failed" ? "" : "task-reason"}`}>
                <div dir="auto">{found.error}</div>
              </div>
            )}
            <Facts task={found} />
            <section class="section" aria-label="Events">
              <h2>Events</h2>
              <Events events={found.events} />
            </section>
            <section class="section" aria-label="Webhooks">
              <h2>Webhooks</h2>
              {found.deliveries.length === 0
                ? <p class="hint">None</p>
                : <DeliveryTable deliveries={found.deliveries} onSent={refresh} />}
            </section>
            {mayChange() ? <ContentSection uuid={uuid} /> : null}
          </>
        )}
      </Loaded>
      {isAsking && task !== undefined
        ? <Cancel task={task} onClose={() => setAsking(false)} onDone={refresh} />
        : null}
    </Screen>
  )
}
