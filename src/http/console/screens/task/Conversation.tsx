/** The messages of a turn by role. Tool calls and their results are folded. */
import type { Task } from "../../../client/promise/Types.ts"
import { Item } from "../../components/Content.tsx"
import { JsonTree } from "../../components/JsonTree.tsx"
import { Paged } from "../../components/Paged.tsx"
import { Empty } from "../../components/Screen.tsx"
import { field, lengthOf, listField, textField, unfold } from "../../json.ts"

const Call = ({ call }: { readonly call: unknown }) => {
  const fn = field(call, "function")
  const name = textField(call, "name") ?? textField(fn, "name")
  const given = field(call, "arguments") ?? field(fn, "arguments")
  if (name === undefined) return <JsonTree name="tool call" value={call} isOpen={false} />
  return (
    <div class="call">
      <span class="detail">calls</span> <code>{name.slice(0, 100)}</code>
      <JsonTree name="arguments" value={unfold(given)} isOpen={false} />
    </div>
  )
}

const Body = ({ message, role }: { readonly message: unknown; readonly role: string }) => {
  const content = field(message, "content")
  if (role === "tool") return <JsonTree name="result" value={unfold(content)} isOpen={false} />
  if (Array.isArray(content)) {
    return (
      <Paged items={content} what="parts" weigh={lengthOf}>
        {(parts) => parts.map((part, index) => <Item key={index} item={part} />)}
      </Paged>
    )
  }
  return content === undefined || content === null || content === "" ? null : <Item item={content} />
}

const Message = ({ message }: { readonly message: unknown }) => {
  const role = textField(message, "role")
  if (role === undefined) {
    return (
      <li class="message">
        <JsonTree name="message" value={message} isOpen={false} />
      </li>
    )
  }
  const calls = listField(message, "tool_calls")
  return (
    <li class={`message message-${["user", "assistant", "system", "tool"].includes(role) ? role : "other"}`}>
      <p class="role">
        {role.slice(0, 40)}
        {field(message, "is_error") === true ? <span class="role-error">failed</span> : null}
      </p>
      <Body message={message} role={role} />
      <Paged items={calls} what="tool calls">
        {(shown) => shown.map((call, index) => <Call key={index} call={call} />)}
      </Paged>
    </li>
  )
}

export const Conversation = ({ turn }: { readonly turn: Task["turn"] }) => {
  const messages = listField(turn, "messages")
  if (messages.length === 0) return <Empty title="No messages yet" />
  return (
    <Paged items={messages} what="messages" weigh={lengthOf}>
      {(shown) => <ol class="messages">{shown.map((message, index) => <Message key={index} message={message} />)}</ol>}
    </Paged>
  )
}
