/** Bulk actions: the last ones, and how far one is. */
import { useAction } from "../../actions.ts"
import { CopyButton, Fact, Moment, shortId } from "../../components/Basics.tsx"
import { Values } from "../../components/JsonTree.tsx"
import { PagedRows, useRows } from "../../components/Operators.tsx"
import { Empty, Loaded, Problem, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Text } from "../../components/Table.tsx"
import { useKeys } from "../../keys.ts"
import { notify } from "../../messages.ts"
import { get, intervals, mayChange, post } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { usePoll } from "../../poll.ts"
import { href } from "../../Router.ts"

type Bulk = Views.Bulk

const names: Readonly<Record<Bulk["action"], string>> = {
  cancel: "Cancel",
  rerun: "Run again",
  redeliver: "Send again",
  delete: "Delete",
  erase: "Erase a user"
}

const number = (count: number) => count.toLocaleString("en")

export const OpsBulkList = () => {
  const { polled, refresh } = useRows<Views.BulkList>(() => "/bulk", intervals.overview)
  return (
    <Screen title="Bulk actions">
      <Loaded polled={polled} refresh={refresh}>
        {(page) => (
          <PagedRows
            page={page}
            caption="Bulk actions, newest first"
            columns={["Action", "State", "By", "Done", "Skipped", "Failed", "Matched", "Begun"]}
            numbers={["Done", "Skipped", "Failed", "Matched"]}
            empty={
              <Empty title="No bulk action yet">
                <p>
                  One action on all that match a filter: cancel, run again, delete, or send webhooks again. It shows the
                  number first, goes on at a rate of yours, and can be stopped here. It begins at a list.
                </p>
                <p class="inline">
                  {["Tasks", "Errors", "Stuck", "Webhooks"].map((name) => (
                    <a key={name} class="button" href={href(`/ops/${name.toLowerCase()}`)}>{name}</a>
                  ))}
                </p>
              </Empty>
            }
          >
            {(bulk) => (
              <tr key={bulk.id}>
                <th scope="row" class="cell-id">
                  <a href={href(`/ops/bulk/${bulk.id}`)} data-row="" title={bulk.id}>{names[bulk.action]}</a>
                </th>
                <Cell label="State">{bulk.state}</Cell>
                <Cell label="By" class="cell-user">
                  <Text>{bulk.by}</Text>
                </Cell>
                {(["done", "skipped", "failed", "matched"] as const).map((name) => (
                  <Cell key={name} label={name} class="number">{number(bulk[name])}</Cell>
                ))}
                <AgeCell label="Begun" at={bulk.started_at} />
              </tr>
            )}
          </PagedRows>
        )}
      </Loaded>
    </Screen>
  )
}

export const OpsBulk = ({ id }: { readonly id: string }) => {
  const { refresh, state } = usePoll<Bulk>(
    (signal) => get(`/bulk/${encodeURIComponent(id)}`, signal),
    ({ state }) => state === "running" ? 1000 : intervals.list,
    [id]
  )
  useKeys({ r: refresh })
  const stop = useAction(async () => {
    await post(`/bulk/${id}/stop`)
    notify("Stopped")
    refresh()
  })
  const bulk = state.value.data
  const mayStop = bulk !== undefined && bulk.state === "running" && bulk.action !== "erase" && mayChange()
  return (
    <Screen
      title={bulk === undefined ? "Bulk action" : names[bulk.action]}
      heading={
        <>
          {bulk === undefined ? "Bulk action" : names[bulk.action]} <code>{shortId(id)}</code>{" "}
          <CopyButton what="id" text={() => id} />
        </>
      }
      actions={mayStop
        ? <button type="button" class="button danger" onClick={() => stop.run()}>Stop</button>
        : undefined}
    >
      <Problem error={stop.error} />
      <Loaded polled={state.value} refresh={refresh}>
        {(found) => (
          <>
            <p role="status">
              <progress
                max={Math.max(1, found.matched)}
                value={found.done + found.skipped + found.failed}
                aria-label="Progress"
              />{" "}
              {found.state}: {number(found.done)} done, {number(found.skipped)} skipped, {number(found.failed)}{" "}
              failed of {number(found.matched)}
            </p>
            <dl class="facts">
              <Fact term="By">
                <Text>{found.by}</Text>
              </Fact>
              <Fact term="Begun">
                <Moment at={found.started_at} />
              </Fact>
              <Fact term="Ended">{found.ended_at === null ? "–" : <Moment at={found.ended_at} />}</Fact>
              <Fact term="Rate">{found.rate} in a second</Fact>
              <Fact term="Filter">
                <Values value={found.filter} />
              </Fact>
              <Fact term="Reason">
                <Text>{found.reason ?? "–"}</Text>
              </Fact>
            </dl>
            {found.errors.length === 0 ? null : (
              <section class="section" aria-label="Errors">
                <h2>The first errors</h2>
                <ul>
                  {found.errors.map((error) => (
                    <li key={error.id}>
                      <code>{error.id}</code>: <bdi>{error.message}</bdi>
                    </li>
                  ))}
                </ul>
              </section>
            )}
            {found.files === undefined || found.files.length === 0 ? null : (
              <section class="section" aria-label="Files">
                <h2>Files of the assistant backend</h2>
                <p class="hint">The tasks named them. Erase them there too.</p>
                <ul>
                  {found.files.slice(0, 500).map((file) => (
                    <li key={file}>
                      <code>{file}</code>
                    </li>
                  ))}
                </ul>
              </section>
            )}
          </>
        )}
      </Loaded>
    </Screen>
  )
}
