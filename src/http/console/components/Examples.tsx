/** What a user without tasks can start: prompts that run, and the same by the API. */
import { useEffect } from "preact/hooks"
import { useAction } from "../actions.ts"
import { active } from "../active.ts"
import { client } from "../api.ts"
import * as assistants from "../assistants.ts"
import { copy } from "../messages.ts"
import { href, navigate } from "../Router.ts"
import { session } from "../session.ts"
import { Problem } from "./Screen.tsx"

const prompts = ["What can you do?", "What is 6 * 7?", "summarize: The parcel left on Monday. It was lost on Tuesday."]

const commandOf = (assistant: string, token: string) =>
  `curl ${location.origin}/api/tasks \\
  -H "Authorization: Bearer ${token}" \\
  -H 'Content-Type: application/json' \\
  -d '{"assistant_id": ${assistant}, "input": [{"type": "text", "text": "${prompts[1]}"}]}'`

export const Examples = () => {
  useEffect(() => {
    if (assistants.listed.value === undefined) void assistants.load()
  }, [])
  const assistant = assistants.recent()[0] ?? assistants.listed.value?.[0]?.id
  const { error, isBusy, run } = useAction(async (text: string) => {
    const { uuid } = await client.tasks.create({ assistant_id: Number(assistant), input: [{ type: "text", text }] })
    active.refresh()
    navigate(`/tasks/${uuid}`)
  })
  return (
    <div class="examples">
      {assistant === undefined ? null : (
        <>
          <p>Start with one of these, to {assistants.nameOf(Number(assistant))}:</p>
          <ul>
            {prompts.map((text) => (
              <li key={text}>
                <button type="button" class="example card" aria-disabled={isBusy} onClick={() => run(text)}>
                  {text}
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
      <Problem error={error} />
      <p>
        <a class="button primary" href={href("/new")}>New task</a>{" "}
        <a class="button" href={href("/new?example=tool")}>One that asks you something</a>
      </p>
      <p>Or from a program:</p>
      <div class="code-block">
        <pre class="json-block" tabIndex={0} dir="ltr"><code>{commandOf(assistant ?? "1", "$TOKEN")}</code></pre>
        <button
          type="button"
          class="button quiet"
          onClick={() => void copy("Command with your token", commandOf(assistant ?? "1", session.value?.token ?? ""))}
        >
          Copy with token
        </button>
      </div>
    </div>
  )
}
