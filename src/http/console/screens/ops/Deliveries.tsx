/** Webhooks with their last attempt. Operators redeliver one, or those that they ticked. */
import { useState } from "preact/hooks"
import { useAction } from "../../actions.ts"
import { DeliveryState, Status } from "../../components/Basics.tsx"
import { Problem } from "../../components/Screen.tsx"
import { AgeCell, Cell, Rows, TaskCell, Text } from "../../components/Table.tsx"
import { notify } from "../../messages.ts"
import { mayChange, post } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"

type Delivery = Views.Delivery
type Redelivered = Views.Redelivered

const attemptOf = ({ attempts }: Delivery) => {
  const last = attempts.at(-1)
  const outcome = last === undefined ? "" : [last.response_status, last.error].filter((part) => part !== null).join(" ")
  return `${attempts.length}${outcome === "" ? "" : `, the last: ${outcome}`}`
}

const inWords = ({ needs_secret: needsSecret, owed }: Redelivered): string =>
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
      <DeliveryState state={delivery.state} />
    </td>
    <TaskCell below="/ops/tasks" uuid={delivery.task_uuid} />
    <td class="cell-status">
      <Status status={delivery.status} />
    </td>
    <Cell label="To" class="cell-user">
      <Text>{delivery.origin}</Text>
    </Cell>
    <Cell label="Attempts">{attemptOf(delivery)}</Cell>
    <AgeCell label="Created" at={delivery.created_at} />
  </tr>
)

export const DeliveryTable = ({ deliveries, onSent }: {
  readonly deliveries: ReadonlyArray<Delivery>
  readonly onSent: () => void
}) => {
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set())
  const ids = deliveries.map(({ id }) => id).filter((id) => ticked.has(id))
  const tick = (id: string, isTicked: boolean) => {
    const next = new Set(ticked)
    if (isTicked) next.add(id)
    else next.delete(id)
    setTicked(next)
  }
  const { error, run } = useAction(async () => {
    notify(inWords(await post<Redelivered>("/deliveries/redeliver", { ids })))
    setTicked(new Set())
    onSent()
  })
  const names = ["State", "Task", "Status", "To", "Attempts", "Created"]
  return (
    <>
      {ids.length === 0
        ? null
        : (
          <p class="toolbar">
            <button type="button" class="button primary" onClick={() => run()}>
              Send {ids.length} again
            </button>
          </p>
        )}
      <Problem error={error} />
      <div class="wide" tabIndex={0} role="region" aria-label="Webhooks in rows">
        <Rows caption="Webhooks" columns={mayChange() ? ["Choose", ...names] : names}>
          {deliveries.map((delivery) => (
            <Row
              key={delivery.id}
              delivery={delivery}
              isTicked={ticked.has(delivery.id)}
              onTick={(isTicked) => tick(delivery.id, isTicked)}
            />
          ))}
        </Rows>
      </div>
    </>
  )
}
