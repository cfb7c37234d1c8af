/** One task of any user: what it waits for, where it runs, its history and its webhooks. Its content is shown on request. */
import { useState } from "preact/hooks"
import { useAction } from "../../actions.ts"
import { duration } from "../../clock.ts"
import { Age, CopyButton, Fact, Moment, placeOf, shortId, Status, wordOf } from "../../components/Basics.tsx"
import { CancelTask } from "../../components/Dialog.tsx"
import { JsonTree } from "../../components/JsonTree.tsx"
import { Loaded, Problem, Screen } from "../../components/Screen.tsx"
import { DataTable, Text } from "../../components/Table.tsx"
import { useKeys } from "../../keys.ts"
import { notify } from "../../messages.ts"
import { get, intervals, mayChange, post } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { usePoll } from "../../poll.ts"
import { href, queryOf } from "../../Router.ts"
import { DeliveryTable } from "./Deliveries.tsx"
import { assistantOf } from "./Tasks.tsx"

type Detail = Views.TaskDetail
type Content = Views.Content

const bytes = (count: number | null) => count === null ? "not stored" : `${count.toLocaleString("en")} bytes`

const Facts = ({ task }: { readonly task: Detail }) => (
  <dl class="facts">
    <Fact term="User">
      <a href={href(`/ops/users/${encodeURIComponent(task.sub)}`)}>
        <Text>{task.sub}</Text>
      </a>
    </Fact>
    <Fact term="Assistant">
      <bdi>{assistantOf(task)}</bdi>
    </Fact>
    <Fact term="Created">
      <Moment at={task.created_at} />
    </Fact>
    <Fact term={task.completed_at === null ? "Time limit" : "Ended"}>
      {task.completed_at === null ? <Age at={task.deadline_at} /> : <Moment at={task.completed_at} />}
    </Fact>
    {task.waiting_on === null
      ? null
      : (
        <Fact term={task.waiting_on.party === "queue" ? "Queued" : `Waits for the ${task.waiting_on.party}`}>
          {placeOf(task.waiting_on) ?? task.waiting_on.for.replaceAll("_", " ")}, due <Age at={task.waiting_on.until} />
          {task.waiting_on.silent_since === null
            ? null
            : (
              <>
                , silent since <Age at={task.waiting_on.silent_since} />, dispatched again {task.waiting_on.hand_overs}×
              </>
            )}
        </Fact>
      )}
    {task.ended_by === null ? null : (
      <Fact term={`${wordOf(task.status)} by`}>
        <Text>{task.ended_by.name ?? task.ended_by.by.replaceAll("_", " ")}</Text>, <Moment at={task.ended_by.at} />
        {task.ended_by.bulk_id === null
          ? null
          : (
            <>
              , <a href={href(`/ops/bulk/${task.ended_by.bulk_id}`)}>bulk action</a>
            </>
          )}
      </Fact>
    )}
    <Fact term="Shard">{task.shard}, {task.owner ?? "no owner"}</Fact>
    <Fact term="Run">
      <code>{task.run_id}</code>
    </Fact>
    <Fact term="Request, turn">{bytes(task.bytes.request)}, {bytes(task.bytes.turn)}</Fact>
    <Fact term="Webhooks to">{task.callback_origin ?? "–"}</Fact>
  </dl>
)

const Events = ({ events }: Pick<Detail, "events">) => (
  <DataTable
    region="Events"
    caption="Events, oldest first"
    columns={["Event", "Status", "Moment", "After"]}
    numbers={["After"]}
  >
    {events.map(({ occurred_at: at, revision, status, type }, index) => (
      <tr key={revision}>
        <th scope="row">{type}</th>
        <td>
          <Status status={status} />
        </td>
        <td>
          <Moment at={at} />
        </td>
        <td class="number">
          {index === 0 ? "" : `+${duration(Date.parse(at) - Date.parse(events[index - 1]!.occurred_at))}`}
        </td>
      </tr>
    ))}
  </DataTable>
)

const ContentSection = ({ uuid }: { readonly uuid: string }) => {
  const [content, setContent] = useState<Content>()
  const { error, run } = useAction(async () => setContent(await get<Content>(`/tasks/${uuid}/content`)))
  return (
    <section class="section" aria-label="Content">
      <h2>Content</h2>
      {content === undefined
        ? (
          <div>
            <button type="button" class="button" onClick={() => run()}>Show content</button>
            <p class="hint">The audit has who reads it.</p>
          </div>
        )
        : <JsonTree value={content} />}
      <Problem error={error} />
    </section>
  )
}

export const Cancel = ({ onClose, onDone, task }: {
  readonly task: Pick<Detail, "uuid" | "sub">
  readonly onClose: () => void
  readonly onDone: () => void
}) => {
  const cancel = async (options: { readonly reason?: string }) => {
    await post(`/tasks/${task.uuid}/cancel`, options)
    notify("Task canceled")
    onDone()
  }
  return (
    <CancelTask onCancel={cancel} onClose={onClose}>
      It belongs to{" "}
      <strong>
        <Text>{task.sub}</Text>
      </strong>. The core stops its run.
    </CancelTask>
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
          Task <code title={uuid}>{shortId(uuid)}</code> <CopyButton what="uuid" text={() => uuid} />{" "}
          {task === undefined ? null : <Status status={task.status} />}
        </>
      }
      actions={mayCancel
        ? <button type="button" class="button danger" onClick={() => setAsking(true)}>Cancel…</button>
        : undefined}
    >
      <Loaded polled={state.value} refresh={refresh}>
        {(found) => (
          <>
            {found.error === null ? null : (
              <div class={`task-error ${found.status === "failed" ? "" : "task-reason"}`}>
                <div dir="auto">{found.error}</div>
                {found.status === "failed"
                  ? (
                    <a
                      class="button"
                      href={href(`/ops/tasks${queryOf({ error: found.error.slice(0, 100), range: "week" })}`)}
                    >
                      Others like it
                    </a>
                  )
                  : null}
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
