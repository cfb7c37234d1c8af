/** The targets of webhooks with their failures, and the webhooks themselves. All that match a filter are redelivered at once. */
import { BulkButton } from "../../components/Bulk.tsx"
import { Select } from "../../components/Filters.tsx"
import { chosen, ClearFilters, OlderPages, RangeSelect, useRead, useRows } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Rows, Text } from "../../components/Table.tsx"
import { useKeys } from "../../keys.ts"
import { mayChange, queryOf } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { href, query } from "../../Router.ts"
import { DeliveryTable } from "./Deliveries.tsx"

type Origins = Views.Origins
type Page = Views.Deliveries

type AttemptError = NonNullable<Page["data"][number]["attempts"][number]["error"]>

/** The type requires every error of the contract. */
const attemptErrors = Object.keys(
  {
    address_refused: true,
    name_not_resolved: true,
    connection_failed: true,
    tls_failed: true,
    timed_out: true,
    broken_answer: true,
    redirected: true,
    not_2xx: true,
    lost: true,
    not_sent: true
  } satisfies Record<AttemptError, true>
)

const OriginTable = ({ data }: Pick<Origins, "data">) => (
  <Rows
    caption="Targets of webhooks, most failures first"
    columns={["Origin", "Pending", "Failed", "Newest failure", "Oldest"]}
    numbers={["Pending", "Failed"]}
  >
    {data.map(({ failed, last_error: error, oldest_failed_at: oldest, origin, pending }) => (
      <tr key={origin}>
        <th scope="row" class="cell-user">
          <a href={href(`/ops/webhooks${queryOf({ origin, state: failed > 0 ? "failed" : "pending" })}`)} data-row="">
            <Text>{origin}</Text>
          </a>
        </th>
        <Cell label="Pending" class="number">{pending}</Cell>
        <Cell label="Failed" class="number">{failed}</Cell>
        <Cell label="Newest failure">{error ?? "–"}</Cell>
        <AgeCell label="Oldest" at={oldest} />
      </tr>
    ))}
  </Rows>
)

export const OpsWebhooks = () => {
  const { value } = query
  const isOverview = !value.has("origin") && !value.has("state") && !value.has("error")
  const origins = useRead<Origins>(() => `/origins${queryOf(chosen())}`)
  const deliveries = useRows<Page>(() => `/deliveries${queryOf(chosen("origin", "error", "state", "cursor"))}`)
  const refresh = () => {
    origins.refresh()
    deliveries.refresh()
  }
  useKeys({ r: refresh })
  const found = origins.state.value.data?.data ?? []
  return (
    <Screen
      title="Webhooks"
      actions={mayChange()
        ? <BulkButton label="Send all failed again…" actions={["redeliver"]} filter={() => chosen("origin", "error")} />
        : undefined}
    >
      <div class="filters" role="search">
        <Select
          name="origin"
          label="Origin"
          options={[
            ["", "All"],
            ...[...new Set([value.get("origin") ?? "", ...found.map(({ origin }) => origin)])]
              .filter((origin) => origin !== "").map((origin) => [origin, origin] as const)
          ]}
        />
        <Select
          name="state"
          label="State"
          options={[["", "All"], ["pending", "Pending"], ["delivered", "Delivered"], ["failed", "Failed"]]}
        />
        <Select
          name="error"
          label="Last error"
          options={[["", "All"], ...attemptErrors.map((error) => [error, error.replaceAll("_", " ")] as const)]}
        />
        <RangeSelect />
        <ClearFilters />
      </div>
      {isOverview
        ? (
          <section class="section" aria-label="Targets">
            <h2>Targets</h2>
            <Loaded polled={origins.state.value} refresh={refresh}>
              {({ data }) =>
                data.length === 0 ? <p class="hint">None is pending or failed</p> : <OriginTable data={data} />}
            </Loaded>
          </section>
        )
        : null}
      <section class="section" aria-label="Deliveries">
        <h2>Deliveries</h2>
        <Loaded polled={deliveries.polled} refresh={refresh}>
          {({ complete, data, next }) => (
            <div>
              {data.length === 0
                ? <Empty title={value.size === 0 ? "No webhooks in the last 24 hours" : "No webhook matches"} />
                : <DeliveryTable deliveries={data} onSent={refresh} />}
              <OlderPages next={next} isComplete={complete} />
            </div>
          )}
        </Loaded>
      </section>
    </Screen>
  )
}
