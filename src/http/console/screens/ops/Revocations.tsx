/** Revoked tokens, newest first, and a form that revokes more. */
import { useState } from "preact/hooks"
import { Moment, Segments, TextField } from "../../components/Basics.tsx"
import { Confirm } from "../../components/Dialog.tsx"
import { PagedRows, useRows } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Text } from "../../components/Table.tsx"
import { notify } from "../../messages.ts"
import { mayChange, post, queryOf } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { query } from "../../Router.ts"

type Page = Views.Revocations
type Revoked = Page["data"][number]

const kinds = [["sub", "All tokens of a user"], ["jti", "One token by its id"], ["token", "One token"]] as const

const hints = { sub: "The user’s name, as in “sub”", jti: "The “jti” of the token", token: "The token itself" }

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
      <AgeCell label="Expires" at={revoked.expires_at} never="never" />
      <AgeCell label="Revoked" at={revoked.revoked_at} />
    </tr>
  )
}

const Revoke = ({ onClose, onDone }: { readonly onClose: () => void; readonly onDone: () => void }) => {
  const [kind, setKind] = useState<keyof typeof hints>("sub")
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
      <Segments label="What to revoke" name="kind" options={kinds} value={kind} onChoose={setKind} />
      <TextField label={hints[kind]} isRequired spellcheck={false} required value={text} onText={setText} />
    </Confirm>
  )
}

export const OpsRevocations = () => {
  const [isRevoking, setRevoking] = useState(false)
  const cursor = query.value.get("cursor")
  const { polled, refresh } = useRows<Page>(() => `/revocations${queryOf({ cursor })}`)
  return (
    <Screen
      title="Revocations"
      actions={mayChange()
        ? <button type="button" class="button danger" onClick={() => setRevoking(true)}>Revoke tokens</button>
        : undefined}
    >
      <Loaded polled={polled} refresh={refresh}>
        {(page) => (
          <PagedRows
            page={page}
            caption="Revocations, newest first"
            columns={["Kind", "What", "Issued before", "Expires", "Revoked"]}
            empty={
              <Empty title="No token is revoked">
                <p>
                  Revoke the tokens of a lost device, or of a user who has left: every node refuses them within 5
                  seconds.
                </p>
              </Empty>
            }
          >
            {(revoked) => <Row key={subjectOf(revoked).join(" ")} revoked={revoked} />}
          </PagedRows>
        )}
      </Loaded>
      {isRevoking ? <Revoke onClose={() => setRevoking(false)} onDone={refresh} /> : null}
    </Screen>
  )
}
