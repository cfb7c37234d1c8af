/** Webhook endpoints: how they are doing, a new one, a sample, and whether they are enabled. */
import { useState } from "preact/hooks"
import { TextField } from "../components/Basics.tsx"
import { Confirm } from "../components/Dialog.tsx"
import { ActionCell, PagedRows, useRows, withAction } from "../components/Operators.tsx"
import type { Screens } from "../components/Parts.tsx"
import { Empty, Loaded, Screen } from "../components/Screen.tsx"
import { AgeCell, Cell, Text } from "../components/Table.tsx"
import { notify } from "../messages.ts"
import { mayChange, patch, post, queryOf, remove } from "../operator.ts"
import { query } from "../Router.ts"

interface Endpoint {
  readonly id: string
  readonly url: string | null
  readonly description: string | null
  readonly events: ReadonlyArray<string>
  readonly format: string
  readonly disabled: boolean
  readonly disabled_reason: string | null
  readonly failing_since: string | null
  readonly last_success_at: string | null
  readonly created_at: string
}

interface Page {
  readonly data: ReadonlyArray<Endpoint>
  readonly next: string | null
}

interface Tested {
  readonly number: number
  readonly response_status: number | null
  readonly error: string | null
}

const base = "/internal/webhook-endpoints"

const stateOf = ({ disabled_reason: reason, failing_since: since }: Endpoint) =>
  reason === "manual"
    ? "Disabled"
    : reason === "gone"
    ? "Disabled: the receiver answered 410"
    : reason === "failing"
    ? "Disabled: failed for 72 hours"
    : since === null
    ? "Enabled"
    : "Failing"

const Actions = ({ endpoint: { disabled, id, url }, onDone }: {
  readonly endpoint: Endpoint
  readonly onDone: () => void
}) => {
  const [asked, setAsked] = useState<"delete" | "state" | undefined>(undefined)
  const test = async () => {
    const { error, number, response_status: status } = await post<Tested>(`${base}/${id}/test`)
    notify(
      number === 0 ? "The sample can be read" : `Sample: ${error ?? "delivered"}${status === null ? "" : `, ${status}`}`
    )
    onDone()
  }
  const toggle = async () => {
    await patch(`${base}/${id}`, { disabled: !disabled })
    notify(disabled ? "Enabled" : "Disabled")
    onDone()
  }
  const drop = async () => {
    await remove(`${base}/${id}`)
    notify("Deleted")
    onDone()
  }
  const close = () => setAsked(undefined)
  return (
    <ActionCell>
      <button type="button" class="button" onClick={() => void test().catch((error) => notify(String(error.message)))}>
        Send a sample
      </button>
      <button type="button" class="button" onClick={() => setAsked("state")}>{disabled ? "Enable" : "Disable"}</button>
      <button type="button" class="button danger" onClick={() => setAsked("delete")}>Delete</button>
      {asked === "state"
        ? (
          <Confirm
            title={disabled ? "Enable the endpoint" : "Disable the endpoint"}
            action={disabled ? "Enable" : "Disable"}
            onConfirm={toggle}
            onClose={close}
          >
            <p>
              {disabled
                ? "What happened in the last 7 days and was not delivered is sent now."
                : "Nothing is sent. Events are collected for 7 days."}
            </p>
          </Confirm>
        )
        : null}
      {asked === "delete"
        ? (
          <Confirm title="Delete the endpoint" action="Delete" isDangerous onConfirm={drop} onClose={close}>
            <p>
              <Text>{url ?? id}</Text> receives nothing more, and its log is deleted.
            </p>
          </Confirm>
        )
        : null}
    </ActionCell>
  )
}

const Row = ({ endpoint, onDone }: { readonly endpoint: Endpoint; readonly onDone: () => void }) => (
  <tr>
    <Cell label="State">{stateOf(endpoint)}</Cell>
    <th scope="row" class="cell-name" title={endpoint.id}>
      <Text>{endpoint.url ?? "Read as a stream"}</Text>
      {endpoint.description === null ? null : <p class="hint">{endpoint.description}</p>}
    </th>
    <Cell label="Events">{endpoint.events.map((type) => type.replace("task.", "")).join(", ")}</Cell>
    <Cell label="Format">{endpoint.format}</Cell>
    <AgeCell label="Last success" at={endpoint.last_success_at} />
    <AgeCell label="Created" at={endpoint.created_at} />
    <Actions endpoint={endpoint} onDone={onDone} />
  </tr>
)

/** `onSecret` shows the secret: this dialog closes when the endpoint is registered. */
const Register = ({ onClose, onSecret }: {
  readonly onClose: () => void
  readonly onSecret: (secret: string) => void
}) => {
  const [url, setUrl] = useState("")
  const [description, setDescription] = useState("")
  const register = async () => {
    const { secret } = await post<{ readonly secret: string }>(base, { url, description })
    onSecret(secret)
  }
  return (
    <Confirm title="Register a webhook endpoint" action="Register" onConfirm={register} onClose={onClose}>
      <p>It receives the events of all tasks from now on.</p>
      <TextField label="URL" isRequired inputMode="url" spellcheck={false} required value={url} onText={setUrl} />
      <TextField label="Description" maxLength={500} value={description} onText={setDescription} />
    </Confirm>
  )
}

const Secret = ({ onClose, secret }: { readonly onClose: () => void; readonly secret: string }) => (
  <Confirm title="The secret of the endpoint" action="I have stored it" onConfirm={async () => {}} onClose={onClose}>
    <p>Its receiver verifies signatures with this secret, which is not shown again.</p>
    <code>{secret}</code>
  </Confirm>
)

const columns = ["State", "URL", "Events", "Format", "Last success", "Created"]

const OpsEndpoints = () => {
  const [isRegistering, setRegistering] = useState(false)
  const [secret, setSecret] = useState<string | undefined>(undefined)
  const cursor = query.value.get("cursor")
  const { polled, refresh } = useRows<Page>(() => `${base}${queryOf({ cursor })}`)
  return (
    <Screen
      title="Webhook endpoints"
      actions={mayChange()
        ? <button type="button" class="button" onClick={() => setRegistering(true)}>Register an endpoint</button>
        : undefined}
    >
      <Loaded polled={polled} refresh={refresh}>
        {(page) => (
          <PagedRows
            page={page}
            caption="Webhook endpoints, newest first"
            columns={withAction(columns)}
            empty={
              <Empty title="No webhook endpoint is registered">
                <p>
                  An endpoint receives the events of all tasks, signed and in order, and again until it has answered.
                </p>
              </Empty>
            }
          >
            {(endpoint) => <Row key={endpoint.id} endpoint={endpoint} onDone={refresh} />}
          </PagedRows>
        )}
      </Loaded>
      {isRegistering ? <Register onClose={() => setRegistering(false)} onSecret={setSecret} /> : null}
      {secret === undefined ? null : (
        <Secret
          secret={secret}
          onClose={() => {
            setSecret(undefined)
            refresh()
          }}
        />
      )}
    </Screen>
  )
}

export const screens: Screens = [[/^\/ops\/endpoints$/, () => <OpsEndpoints key={query.value.toString()} />]]
