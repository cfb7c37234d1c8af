/**
 * A chat with `useChat` of Vercel's AI SDK. Each answer is a task: it goes on without the page, which finds the tasks of its chat by their
 * metadata, and reads the text of the last one again from its beginning after a reload.
 *
 * @jsxImportSource react
 */
import { useChat } from "@ai-sdk/react"
import type { ChatTransport, UIMessage, UIMessageChunk } from "ai"
import { useState } from "react"
import { createRoot } from "react-dom/client"
import { isTerminal, outputText, type Task, TaskServiceClient } from "../../../src/http/client/Client.ts" // async-task-service-client

const config = await (await fetch("/config.json")).json()
const client = new TaskServiceClient({ baseUrl: config.url, token: config.token })

const textOf = ({ parts }: UIMessage) => parts.findLast((part) => part.type === "text")?.text ?? ""

/** The answer as the AI SDK reads it: `messageId` is the task. */
const answerOf = (uuid: string, signal?: AbortSignal) =>
  new ReadableStream<UIMessageChunk>({
    start: async (controller) => {
      let part = 0
      const begin = () => controller.enqueue({ type: "text-start", id: String(part) })
      const end = () => controller.enqueue({ type: "text-end", id: String(part++) })
      const replace = () => {
        end()
        begin()
      }
      try {
        controller.enqueue({ type: "start", messageId: uuid })
        begin()
        for await (const delta of client.tasks.text(uuid, { signal, onReplaced: replace })) {
          controller.enqueue({ type: "text-delta", id: String(part), delta })
        }
        end()
        const { error, status } = await client.tasks.get(uuid)
        if (status === "failed") controller.enqueue({ type: "error", errorText: error ?? "The task failed" })
        controller.enqueue({ type: "finish" })
        controller.close()
      } catch (error) {
        controller.error(error)
      }
    }
  })

const transport: ChatTransport<UIMessage> = {
  // A stream after a reload has the whole answer.
  resumeStreamIsReplay: true,
  sendMessages: async ({ abortSignal, chatId, messages }) => {
    const turns = messages.map((message) => ({ role: message.role, content: textOf(message) }))
    const { uuid } = await client.tasks.create({
      assistant_id: config.assistant_id,
      input: [{ type: "text", text: turns.pop()?.content ?? "" }],
      turns,
      metadata: { chat: chatId }
    })
    return answerOf(uuid, abortSignal)
  },
  reconnectToStream: async ({ abortSignal, chatId }) => {
    const { data: [last] } = await client.tasks.list({ metadata: { chat: chatId }, per_page: 1 })
    return last === undefined || isTerminal(last) ? null : answerOf(last.uuid, abortSignal)
  }
}

const messagesOf = (task: Task): ReadonlyArray<UIMessage> => {
  const message = (id: string, role: "user" | "assistant", text: string): UIMessage => ({
    id,
    role,
    parts: [{ type: "text", text }]
  })
  const asked = task.request?.input.flatMap((item) => item.type === "text" ? [item.text] : []) ?? []
  const question = message(`question-${task.uuid}`, "user", asked.join("\n"))
  return isTerminal(task) ? [question, message(task.uuid, "assistant", outputText(task) ?? "")] : [question]
}

const readChat = async (chat: string) => {
  const uuids: Array<string> = []
  for await (const { uuid } of client.tasks.list({ metadata: { chat } })) uuids.unshift(uuid)
  const tasks = await Promise.all(uuids.map((uuid) => client.tasks.get(uuid, { include: ["request"] })))
  return tasks.flatMap(messagesOf)
}

const Chat = ({ id, messages: earlier }: { readonly id: string; readonly messages: Array<UIMessage> }) => {
  const { error, messages, sendMessage, status } = useChat({ id, messages: earlier, transport, resume: true })
  const [text, setText] = useState("")
  const isAnswering = status === "submitted" || status === "streaming"
  const answer = messages.findLast(({ role }) => role === "assistant")
  // `stop` of `useChat` ends the reading alone. The stream ends when the task has.
  const stop = () => answer === undefined ? undefined : client.tasks.stop(answer.id).catch(() => {})
  return (
    <>
      <div aria-live="polite">
        {messages.map((message) => <p key={message.id} className={`message ${message.role}`}>{textOf(message)}</p>)}
      </div>
      {error === undefined ? null : <p role="alert">{error.message}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (text === "" || isAnswering) return
          void sendMessage({ text })
          setText("")
        }}
      >
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        {isAnswering
          ? <button type="button" onClick={() => void stop()}>Stop</button>
          : <button type="submit">Send</button>}
      </form>
    </>
  )
}

const address = new URL(location.href)
const id = address.searchParams.get("chat") ?? crypto.randomUUID()
address.searchParams.set("chat", id)
history.replaceState(null, "", address)
createRoot(document.querySelector("main")!).render(<Chat id={id} messages={await readChat(id)} />)
