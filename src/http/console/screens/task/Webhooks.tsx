/** The webhooks of a task with their attempts. One can be sent again. */
import { useState } from "preact/hooks"
import { ConflictError } from "../../../client/promise/ApiErrors.ts"
import type { Delivery } from "../../../client/promise/Types.ts"
import { listInterval } from "../../active.ts"
import { client } from "../../api.ts"
import { duration } from "../../clock.ts"
import { Age, Moment, Status } from "../../components/Basics.tsx"
import { Confirm } from "../../components/Dialog.tsx"
import { Icon } from "../../components/Icon.tsx"
import { Paged } from "../../components/Paged.tsx"
import { Empty, Loaded, messageOf, Problem } from "../../components/Screen.tsx"
import { notify } from "../../messages.ts"
import { usePoll } from "../../poll.ts"

/** Characters of a secret: the service's limit. */
const maxSecret = 255

const Attempts = ({ attempts }: Pick<Delivery, "attempts">) => (
  <table class="data">
    <caption class="visually-hidden">Attempts, oldest first</caption>
    <thead>
      <tr>
        <th scope="col">Attempt</th>
        <th scope="col">Started</th>
        <th scope="col" class="number">Took</th>
        <th scope="col">Answer</th>
      </tr>
    </thead>
    <tbody>
      {attempts.map(({ duration_ms: took, error, number, response_status: status, started_at }) => (
        <tr key={number}>
          <td>{number}</td>
          <td>
            <Moment at={started_at} />
          </td>
          <td class="number">{took === null ? "–" : duration(took)}</td>
          <td>{[status, error].filter((part) => part !== null).join(" ") || "–"}</td>
        </tr>
      ))}
    </tbody>
  </table>
)

const icons = { pending: "pending", delivered: "completed", failed: "failed" } as const

/** Requests the secret, which the service deletes after a success. */
const Secret = ({ message, onClose, onSend }: {
  readonly message: string
  readonly onSend: (secret: string) => Promise<void>
  readonly onClose: () => void
}) => {
  const [secret, setSecret] = useState("")
  return (
    <Confirm title="Send the webhook again" action="Send" onConfirm={() => onSend(secret)} onClose={onClose}>
      <p>{message}</p>
      <div class="field">
        <label for="secret">Callback secret</label>
        <input
          id="secret"
          type="password"
          autocomplete="off"
          maxLength={maxSecret}
          required
          value={secret}
          onInput={(event) => setSecret(event.currentTarget.value)}
        />
      </div>
    </Confirm>
  )
}

const DeliveryCard = ({ delivery, onSent, uuid }: {
  readonly uuid: string
  readonly delivery: Delivery
  readonly onSent: () => void
}) => {
  const [error, setError] = useState<unknown>()
  const [asked, setAsked] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const send = async (secret?: string) => {
    if (isBusy) return
    setBusy(true)
    setAsked(undefined)
    setError(undefined)
    try {
      await client.tasks.redeliver(uuid, delivery.id, secret === undefined ? {} : { callback_secret: secret })
      notify("Webhook is sent again")
      onSent()
    } catch (failure) {
      // The form requests the secret after the first refusal of a signed webhook.
      if (failure instanceof ConflictError && secret === undefined) setAsked(messageOf(failure))
      else setError(failure)
    }
    setBusy(false)
  }
  return (
    <li class="card delivery">
      <div class="delivery-head">
        <Status status={delivery.status} />
        <span class={`state state-${delivery.state}`}>
          <Icon name={icons[delivery.state]} />
          {delivery.state}
        </span>
        <span class="detail">
          {delivery.next_attempt_at === null
            ? (
              <>
                created <Age at={delivery.created_at} />
              </>
            )
            : (
              <>
                next attempt <Age at={delivery.next_attempt_at} />
              </>
            )}
        </span>
        <button type="button" class="button" aria-disabled={isBusy} onClick={() => void send()}>Send again</button>
      </div>
      {error === undefined ? null : <Problem error={error} />}
      {delivery.attempts.length === 0 ?
        <p class="hint">No attempt yet</p> :
        (
          <div class="scroll" tabIndex={0} role="region" aria-label="Attempts">
            <Attempts attempts={delivery.attempts} />
          </div>
        )}
      {asked === undefined
        ? null
        : <Secret message={asked} onSend={send} onClose={() => setAsked(undefined)} />}
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
