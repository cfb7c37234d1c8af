/** Webhooks with their last attempt. Operators redeliver one, or those that they ticked. */
import { useState } from "preact/hooks"
import type * as Views from "../../../contract/OperatorSchemas.ts"
import { Age, shortId, Status } from "../../components/Basics.tsx"
import { Icon } from "../../components/Icon.tsx"
import { Cell, Columns, Text } from "../../components/Operators.tsx"
import { Problem } from "../../components/Screen.tsx"
import { notify } from "../../messages.ts"
import { mayChange, post } from "../../operator.ts"
import { href } from "../../Router.ts"

type Delivery = typeof Views.OperatorDeliveryView.Type
export type Redelivered = typeof Views.RedeliveredView.Type

const icons = { pending: "pending", delivered: "completed", failed: "failed" } as const

const attemptOf = ({ attempts }: Delivery) => {
  const last = attempts.at(-1)
  const outcome = last === undefined ? "" : [last.response_status, last.error].filter((part) => part !== null).join(" ")
  return `${attempts.length}${outcome === "" ? "" : `, ${outcome}`}`
}

export const inWords = ({ needs_secret: needsSecret, owed }: Redelivered): string =>
  `${owed} sent again${needsSecret === 0 ? "" : `, ${needsSecret} need their secret from the client`}`

const Row = ({ delivery, isTicked, onTick }: {
  readonly delivery: Delivery
  readonly isTicked: boolean
  readonly onTick: (isTicked: boolean) => void
}) => (
  <tr>
    {mayChange()
      ? (
        <td class="cell-tick">
          <input
            type="checkbox"
            aria-label={`Choose ${delivery.id}`}
            checked={isTicked}
            onChange={(event) => onTick(event.currentTarget.checked)}
          />
        </td>
      )
      : null}
    <td>
      <span class={`state state-${delivery.state}`}>
        <Icon name={icons[delivery.state]} />
        {delivery.state}
      </span>
    </td>
    <th scope="row" class="cell-id">
      <a href={href(`/ops/tasks/${delivery.task_uuid}`)} data-row="" title={delivery.task_uuid}>
        <code>{shortId(delivery.task_uuid)}</code>
      </a>
    </th>
    <td class="cell-status">
      <Status status={delivery.status} />
    </td>
    <Cell label="To" class="cell-user">
      <Text>{delivery.origin}</Text>
    </Cell>
    <Cell label="Attempts">{attemptOf(delivery)}</Cell>
    <Cell label="Created" class="cell-age">
      <Age at={delivery.created_at} />
    </Cell>
  </tr>
)

export const DeliveryTable = ({ deliveries, onSent }: {
  readonly deliveries: ReadonlyArray<Delivery>
  readonly onSent: () => void
}) => {
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set())
  const [error, setError] = useState<unknown>()
  const ids = deliveries.map(({ id }) => id).filter((id) => ticked.has(id))
  const tick = (id: string, isTicked: boolean) => {
    const next = new Set(ticked)
    if (isTicked) next.add(id)
    else next.delete(id)
    setTicked(next)
  }
  const send = async () => {
    try {
      setError(undefined)
      notify(inWords(await post<Redelivered>("/deliveries/redeliver", { ids })))
      setTicked(new Set())
      onSent()
    } catch (failure) {
      setError(failure)
    }
  }
  const names = ["State", "Task", "Status", "To", "Attempts", "Created"]
  return (
    <>
      {ids.length === 0
        ? null
        : (
          <p class="toolbar">
            <button type="button" class="button primary" onClick={() => void send()}>
              Send {ids.length} again
            </button>
          </p>
        )}
      {error === undefined ? null : <Problem error={error} />}
      <div class="wide" tabIndex={0} role="region" aria-label="Webhooks in rows">
        <table class="rows">
          <caption class="visually-hidden">Webhooks</caption>
          <Columns names={mayChange() ? ["Choose", ...names] : names} />
          <tbody>
            {deliveries.map((delivery) => (
              <Row
                key={delivery.id}
                delivery={delivery}
                isTicked={ticked.has(delivery.id)}
                onTick={(isTicked) => tick(delivery.id, isTicked)}
              />
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}
