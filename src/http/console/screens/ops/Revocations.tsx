/** Revoked tokens, newest first, and a form that revokes more. */
import { useState } from "preact/hooks"
import type * as Views from "../../../contract/OperatorSchemas.ts"
import { Age, Field, Moment } from "../../components/Basics.tsx"
import { Confirm } from "../../components/Dialog.tsx"
import { Cell, Columns, OlderPages, Text } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { useKeys } from "../../keys.ts"
import { notify } from "../../messages.ts"
import { get, intervals, mayChange, post, queryOf } from "../../operator.ts"
import { usePoll } from "../../poll.ts"
import { query } from "../../Router.ts"

type Page = typeof Views.RevocationsView.Type
type Revoked = Page["data"][number]

const kinds = [
  ["sub", "All tokens of a user", "The user’s name, as in “sub”"],
  ["jti", "One token by its id", "The “jti” of the token"],
  ["token", "One token", "The token itself"]
] as const

const subjectOf = ({ jti, sub, token_hash: hash }: Revoked): readonly [kind: string, name: string] =>
  sub !== null ? ["User", sub] : jti !== null ? ["Token", jti] : ["Token without id", `SHA-256 ${hash ?? ""}`]

const Row = ({ revoked }: { readonly revoked: Revoked }) => {
  const [kind, name] = subjectOf(revoked)
  return (
    <tr>
      <td>{kind}</td>
      <th scope="row" class="cell-user">
        <Text>{name}</Text>
      </th>
      <Cell label="Issued before">
        {revoked.issued_before === null ? "–" : <Moment at={revoked.issued_before} />}
      </Cell>
      <Cell label="Expires" class="cell-age">
        {revoked.expires_at === null ? "never" : <Age at={revoked.expires_at} />}
      </Cell>
      <Cell label="Revoked" class="cell-age">
        <Age at={revoked.revoked_at} />
      </Cell>
    </tr>
  )
}

const Revoke = ({ onClose, onDone }: { readonly onClose: () => void; readonly onDone: () => void }) => {
  const [[kind, , hint], setKind] = useState<typeof kinds[number]>(kinds[0])
  const [text, setText] = useState("")
  const revoke = async () => {
    await post("/revocations", { [kind]: text })
    notify("Revoked")
    onDone()
  }
  return (
    <Confirm title="Revoke tokens" action="Revoke" isDangerous onConfirm={revoke} onClose={onClose}>
      <p>
        Every node refuses them within 5 seconds. Tasks that are processing with one of them fail, pending ones as soon
        as they would start. A revocation cannot be taken back.
      </p>
      <fieldset class="segments">
        <legend class="visually-hidden">What to revoke</legend>
        {kinds.map((option) => (
          <label key={option[0]}>
            <input type="radio" name="kind" checked={option[0] === kind} onChange={() => setKind(option)} />
            <span>{option[1]}</span>
          </label>
        ))}
      </fieldset>
      <Field label={hint} isRequired>
        {(control) => (
          <input
            {...control}
            autocomplete="off"
            spellcheck={false}
            required
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        )}
      </Field>
    </Confirm>
  )
}

export const OpsRevocations = () => {
  const [isRevoking, setRevoking] = useState(false)
  const cursor = query.value.get("cursor")
  const { refresh, state } = usePoll<Page>(
    (signal) => get(`/revocations${queryOf({ cursor })}`, signal),
    () => intervals.list,
    [cursor]
  )
  useKeys({ r: refresh })
  return (
    <Screen
      title="Revocations"
      actions={mayChange()
        ? <button type="button" class="button danger" onClick={() => setRevoking(true)}>Revoke tokens</button>
        : undefined}
    >
      <Loaded polled={state.value} refresh={refresh}>
        {({ complete, data, next }) => (
          <div>
            {data.length === 0 ? <Empty title="No token is revoked" /> : (
              <table class="rows">
                <caption class="visually-hidden">Revocations, newest first</caption>
                <Columns names={["Kind", "What", "Issued before", "Expires", "Revoked"]} />
                <tbody>
                  {data.map((revoked) => <Row key={subjectOf(revoked).join(" ")} revoked={revoked} />)}
                </tbody>
              </table>
            )}
            <OlderPages next={next} isComplete={complete} />
          </div>
        )}
      </Loaded>
      {isRevoking ? <Revoke onClose={() => setRevoking(false)} onDone={refresh} /> : null}
    </Screen>
  )
}
