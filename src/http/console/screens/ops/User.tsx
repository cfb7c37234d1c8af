/** One user as a whole: tasks, limit, schedules, stored bytes, usage, revocations; export and erasure. */
import { useState } from "preact/hooks"
import { Age, Fact, Moment, Status, TextField } from "../../components/Basics.tsx"
import { BulkButton } from "../../components/Bulk.tsx"
import { Confirm } from "../../components/Dialog.tsx"
import { Values } from "../../components/JsonTree.tsx"
import { Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Figures, Rows, TaskCell, Text } from "../../components/Table.tsx"
import { useKeys } from "../../keys.ts"
import { notify } from "../../messages.ts"
import { get, intervals, mayChange, post, put, queryOf } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { usePoll } from "../../poll.ts"
import { href, navigate } from "../../Router.ts"

type User = Views.User

const number = (count: number) => count.toLocaleString("en")
const pathOf = (sub: string) => `/users/${encodeURIComponent(sub)}`

/** What an extension says of a user: numbers and texts by their names. */
const Said = ({ term, value }: { readonly term: string; readonly value: unknown }) =>
  typeof value !== "object" || value === null ? null : (
    <section class="card user-part" aria-label={term}>
      <h2>{term}</h2>
      <Values
        value={Object.fromEntries(
          Object.entries(value).map(([name, part]) => [name, typeof part === "number" ? number(part) : part])
        )}
      />
    </section>
  )

const units = ["bytes", "KiB", "MiB", "GiB", "TiB"]

const bytesOf = (count: number) => {
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10))
  return `${(count / 1024 ** power).toLocaleString("en", { maximumFractionDigits: 1 })} ${units[power]}`
}

/** Tasks of one status. */
const listed = 10

/** What the user's slots hold, and what failed last. */
const Tasks = ({ sub }: { readonly sub: string }) => {
  const from = new Date(Date.now() - 7 * 86_400_000).toISOString()
  const { refresh, state } = usePoll(
    (signal) =>
      Promise.all(
        ["processing", "pending", "interrupted", "failed"].map((status) =>
          get<Views.Tasks>(`/tasks${queryOf({ sub, status, from, limit: listed })}`, signal)
        )
      ).then((pages) => pages.flatMap(({ data }) => data)),
    () => intervals.list,
    [sub]
  )
  return (
    <section class="section" aria-label="Live and failed tasks">
      <h2>Live and failed in the last 7 days</h2>
      <Loaded polled={state.value} refresh={refresh}>
        {(tasks) =>
          tasks.length === 0 ?
            <p class="hint">Nothing is live, and nothing failed</p> :
            (
              <Rows
                caption="Live tasks, then failed ones, newest first"
                columns={["Status", "Task", "Detail", "Created"]}
              >
                {tasks.map((task) => (
                  <tr key={task.uuid}>
                    <td class="cell-status">
                      <Status status={task.status} />
                    </td>
                    <TaskCell below="/ops/tasks" uuid={task.uuid} />
                    <td class="cell-detail">
                      <bdi>{(task.error ?? task.pending_tools.join(", ")).slice(0, 300)}</bdi>
                    </td>
                    <AgeCell label="Created" at={task.created_at} />
                  </tr>
                ))}
              </Rows>
            )}
      </Loaded>
    </section>
  )
}

const SetLimit = ({ onClose, onDone, user }: {
  readonly user: User
  readonly onClose: () => void
  readonly onDone: () => void
}) => {
  const [text, setText] = useState(String(user.limits.max_active_tasks ?? ""))
  const save = async () => {
    await put(`${pathOf(user.sub)}/limits`, { max_active_tasks: text.trim() === "" ? null : Number(text) })
    notify("Saved")
    onDone()
  }
  return (
    <Confirm title="Limit of active tasks" action="Save" onConfirm={save} onClose={onClose}>
      <TextField
        label="Active tasks"
        hint="1 to 10,000; empty for the default. It holds for the next task."
        inputMode="numeric"
        value={text}
        onText={setText}
      />
    </Confirm>
  )
}

const Erase = ({ onClose, sub }: { readonly sub: string; readonly onClose: () => void }) => {
  const [confirm, setConfirm] = useState("")
  const [reason, setReason] = useState("")
  const erase = async () => {
    const { id } = await post<Views.StartedBulk>(`${pathOf(sub)}/erase`, {
      confirm,
      reason: reason.trim() === "" ? null : reason.trim()
    })
    navigate(`/ops/bulk/${id}`)
  }
  return (
    <Confirm title="Erase this user?" action="Erase everything" isDangerous onConfirm={erase} onClose={onClose}>
      <p>
        Live tasks are canceled, and all that is kept of{" "}
        <strong>
          <Text>{sub}</Text>
        </strong>{" "}
        is deleted: tasks, results, webhooks, schedules, usage. Tokens issued until now are revoked. This cannot be
        undone.
      </p>
      <TextField
        label="The user’s name again"
        isRequired
        spellcheck={false}
        required
        value={confirm}
        onText={setConfirm}
      />
      <TextField label="Reason" maxLength={1000} value={reason} onText={setReason} />
    </Confirm>
  )
}

export const OpsUser = ({ sub }: { readonly sub: string }) => {
  const [asked, setAsked] = useState<"limit" | "erase">()
  const { refresh, state } = usePoll<User>((signal) => get(pathOf(sub), signal), () => intervals.list, [sub])
  useKeys({ r: refresh })
  const close = () => setAsked(undefined)
  return (
    <Screen
      title={`User ${sub.slice(0, 40)}`}
      heading={
        <>
          User <Text>{sub}</Text>
        </>
      }
      actions={mayChange()
        ? (
          <>
            <BulkButton
              label="Change tasks…"
              actions={["cancel", "rerun", "delete"]}
              filter={() => ({ sub, from: new Date(Date.now() - 31 * 86_400_000 + 60_000).toISOString() })}
            />
            <a class="button" href={`/internal/operator${pathOf(sub)}/export`} download="user.ndjson">Export</a>
            <button type="button" class="button danger" onClick={() => setAsked("erase")}>Erase…</button>
          </>
        )
        : undefined}
    >
      <Loaded polled={state.value} refresh={refresh}>
        {(user) => (
          <>
            <Figures
              figures={([
                ["Slots in use", `${user.slots.used} of ${user.slots.maximum}`, { range: "month" }],
                ["Running", user.running, { status: "processing" }],
                ["Waiting", user.waiting, { status: "pending" }],
                ["Waits for the user", user.interrupted, { status: "interrupted" }],
                ["Failed in 7 days", user.failures, { status: "failed", range: "week" }]
              ] as const).map(([label, value, filter]) => [label, value, `/ops/tasks${queryOf({ sub, ...filter })}`])}
            />
            <dl class="facts">
              <Fact term="Limit of active tasks">
                {user.limits.max_active_tasks === null ? "the default" : `${user.slots.maximum}, its own`} {mayChange()
                  ? <button type="button" class="button quiet" onClick={() => setAsked("limit")}>Change</button>
                  : null}
              </Fact>
              <Fact term="Stored">
                {bytesOf(user.stored_bytes.bytes)} in {number(user.stored_bytes.tasks)} tasks
                {user.stored_bytes.complete ? "" : ", and more"}
              </Fact>
              <Fact term="Tokens revoked">
                {user.last_revocation === null ? "never" : (
                  <>
                    <Age at={user.last_revocation.revoked_at} />, those issued before{" "}
                    <Moment at={user.last_revocation.issued_before} />
                  </>
                )}
              </Fact>
            </dl>
            <nav class="actions" aria-label="More of this user">
              <a class="button" href={href(`/ops/tasks${queryOf({ sub: user.sub, range: "month" })}`)}>Tasks</a>
              {user.usage === undefined
                ? null
                : <a class="button" href={href(`/ops/usage${queryOf({ sub: user.sub, by: "model" })}`)}>Usage</a>}
              {user.schedules === undefined
                ? null
                : (
                  <a class="button" href={href(`/ops/schedules${queryOf({ show: "all", q: user.sub })}`)}>
                    Schedules
                  </a>
                )}
              <a class="button" href={href(`/ops/audit${queryOf({ sub: user.sub })}`)}>Audit</a>
              <a class="button" href={href("/ops/revocations")}>Revocations</a>
            </nav>
            <div class="user-parts">
              <Said term="Usage of the month" value={user.usage} />
              <Said term="Schedules" value={user.schedules} />
            </div>
            <Tasks sub={user.sub} />
            {asked === "limit" ? <SetLimit user={user} onClose={close} onDone={refresh} /> : null}
          </>
        )}
      </Loaded>
      {asked === "erase" ? <Erase sub={sub} onClose={close} /> : null}
    </Screen>
  )
}
