/** One user as a whole: tasks, limit, schedules, stored bytes, usage, revocations; export and erasure. */
import { useState } from "preact/hooks"
import { Fact, Moment, TextField } from "../../components/Basics.tsx"
import { BulkButton } from "../../components/Bulk.tsx"
import { Confirm } from "../../components/Dialog.tsx"
import { Loaded, Screen } from "../../components/Screen.tsx"
import { Text } from "../../components/Table.tsx"
import { useKeys } from "../../keys.ts"
import { notify } from "../../messages.ts"
import { get, intervals, mayChange, post, put, queryOf } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { usePoll } from "../../poll.ts"
import { href, navigate } from "../../Router.ts"

type User = Views.User

const number = (count: number) => count.toLocaleString("en")
const pathOf = (sub: string) => `/users/${encodeURIComponent(sub)}`

/** What an extension says of a user. */
const wordsOf = (value: unknown) =>
  typeof value === "object" && value !== null
    ? Object.entries(value).map(([name, part]) => `${name.replaceAll("_", " ")} ${part ?? "–"}`).join(", ")
    : "–"

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
            <dl class="facts">
              <Fact term="Slots">
                {user.slots.used} of {user.slots.maximum}
                {user.limits.max_active_tasks === null ? "" : " (own limit)"} {mayChange()
                  ? <button type="button" class="button quiet" onClick={() => setAsked("limit")}>Change</button>
                  : null}
              </Fact>
              <Fact term="Waiting">{user.waiting}</Fact>
              <Fact term="Running">{user.running}</Fact>
              <Fact term="Waits for the user">{user.interrupted}</Fact>
              <Fact term="Failed in 7 days">
                <a href={href(`/ops/tasks${queryOf({ sub, status: "failed", range: "week" })}`)}>
                  {number(user.failures)}
                </a>
              </Fact>
              <Fact term="Stored">
                {number(user.stored_bytes.bytes)} bytes of {number(user.stored_bytes.tasks)} tasks
                {user.stored_bytes.complete ? "" : ", and more"}
              </Fact>
              <Fact term="Tokens revoked">
                {user.last_revocation === null
                  ? "never"
                  : <Moment at={user.last_revocation.revoked_at} />}
              </Fact>
              {user.schedules === undefined ? null : <Fact term="Schedules">{wordsOf(user.schedules)}</Fact>}
              {user.usage === undefined ? null : <Fact term="Usage of the month">{wordsOf(user.usage)}</Fact>}
            </dl>
            <p>
              <a class="button" href={href(`/ops/tasks${queryOf({ sub, range: "month" })}`)}>Tasks</a>{" "}
              <a class="button" href={href(`/ops/audit${queryOf({ sub })}`)}>Audit</a>
            </p>
            {asked === "limit" ? <SetLimit user={user} onClose={close} onDone={refresh} /> : null}
          </>
        )}
      </Loaded>
      {asked === "erase" ? <Erase sub={sub} onClose={close} /> : null}
    </Screen>
  )
}
