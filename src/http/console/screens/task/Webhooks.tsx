/** The webhooks of a task with their attempts. One can be sent again. */
import { useState } from "preact/hooks"
import { ConflictError } from "../../../client/promise/ApiErrors.ts"
import type { Delivery } from "../../../client/promise/Types.ts"
import { useAction } from "../../actions.ts"
import { listInterval } from "../../active.ts"
import { client } from "../../api.ts"
import { duration } from "../../clock.ts"
import { Age, DeliveryState, Moment, Status, TextField } from "../../components/Basics.tsx"
import { Confirm } from "../../components/Dialog.tsx"
import { Paged } from "../../components/Paged.tsx"
import { Empty, Loaded, messageOf, Problem } from "../../components/Screen.tsx"
import { DataTable } from "../../components/Table.tsx"
import { notify } from "../../messages.ts"
import { usePoll } from "../../poll.ts"

/** Characters of a secret: the service's limit. */
const maxSecret = 255

const Attempts = ({ attempts }: Pick<Delivery, "attempts">) => (
  <DataTable
    region="Attempts"
    caption="Attempts, oldest first"
    columns={["Attempt", "Started", "Took", "Answer"]}
    numbers={["Took"]}
  >
    {attempts.map(({ duration_ms: took, error, hint, number, response_status: status, started_at }) => (
      <tr key={number}>
        <td>{number}</td>
        <td>
          <Moment at={started_at} />
        </td>
        <td class="number">{took === null ? "–" : duration(took)}</td>
        <td>
          {[status, error].filter((part) => part !== null).join(" ") || "–"}
          {hint === undefined ? null : <p class="hint">{hint}</p>}
        </td>
      </tr>
    ))}
  </DataTable>
)

/** Requests the secret, which the service deletes after a success. */
const Secret = ({ message, onClose, onSend }: {
  readonly message: string
  readonly onSend: (secret: string) => void
  readonly onClose: () => void
}) => {
  const [secret, setSecret] = useState("")
  return (
    <Confirm title="Send the webhook again" action="Send" onConfirm={async () => onSend(secret)} onClose={onClose}>
      <p>{message}</p>
      <TextField
        label="Callback secret"
        isRequired
        type="password"
        maxLength={maxSecret}
        required
        value={secret}
        onText={setSecret}
      />
    </Confirm>
  )
}

const DeliveryCard = ({ delivery, onSent, uuid }: {
  readonly uuid: string
  readonly delivery: Delivery
  readonly onSent: () => void
}) => {
  const [refusal, setRefusal] = useState<string>()
  const { error, isBusy, run } = useAction(async (secret?: string) => {
    setRefusal(undefined)
    try {
      await client.tasks.redeliver(uuid, delivery.id, secret === undefined ? {} : { callback_secret: secret })
      notify("Webhook is sent again")
      onSent()
    } catch (failure) {
      // The form requests the secret after the first refusal of a signed webhook.
      if (!(failure instanceof ConflictError) || secret !== undefined) throw failure
      setRefusal(messageOf(failure))
    }
  })
  return (
    <li class="card delivery">
      <div class="delivery-head">
        <Status status={delivery.status} />
        <DeliveryState state={delivery.state} />
        <span class="detail">
          {delivery.next_attempt_at === null ? "created " : "next attempt "}
          <Age at={delivery.next_attempt_at ?? delivery.created_at} />
        </span>
        <button type="button" class="button" aria-disabled={isBusy} onClick={() => run()}>Send again</button>
      </div>
      <Problem error={error} />
      {delivery.attempts.length === 0
        ? <p class="hint">No attempt yet</p>
        : <Attempts attempts={delivery.attempts} />}
      {refusal === undefined
        ? null
        : <Secret message={refusal} onSend={run} onClose={() => setRefusal(undefined)} />}
    </li>
  )
}

export const Webhooks = ({ isEnded, uuid }: { readonly uuid: string; readonly isEnded: boolean }) => {
  const { refresh, state } = usePoll(
    (signal) => client.tasks.deliveries(uuid, { maxRetries: 0, signal }),
    (deliveries) =>
      !isEnded || deliveries.some(({ state }) => state === "pending") ? listInterval.live : listInterval.quiet,
    [uuid, isEnded]
  )
  return (
    <Loaded polled={state.value} refresh={refresh}>
      {(deliveries) =>
        deliveries.length === 0
          ? (
            <Empty title="No webhooks">
              <p>They are sent to the callback URL of a task when it is interrupted and when it ends.</p>
            </Empty>
          )
          : (
            <Paged items={deliveries} what="webhooks" isNewestFirst>
              {(shown) => (
                <ul class="cards">
                  {shown.map((delivery) => (
                    <DeliveryCard key={delivery.id} uuid={uuid} delivery={delivery} onSent={refresh} />
                  ))}
                </ul>
              )}
            </Paged>
          )}
    </Loaded>
  )
}
