/** The official client of version 0.3: every method. */
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory
} from "@a2a-js/sdk/client"
import { randomUUID } from "node:crypto"

const authorization = `Bearer ${process.env["TOKEN"]}`
const clientTools = "urn:async-task-service:a2a:client-tools:v1"
const fetchImpl: typeof fetch = (input, init) =>
  fetch(input, {
    ...init,
    headers: { ...init?.headers as Record<string, string>, authorization, "X-A2A-Extensions": clientTools }
  })
const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory({ fetchImpl })],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl })
  })
)
const agent = (path = "/") => factory.createFromUrl(`${process.env["SERVICE_URL"]}${path}`)
const [rules, tools, slow] = await Promise.all([agent(), agent("/a2a/2/"), agent("/a2a/3/")])

const tool = { type: "function", name: "weather", description: "Weather", parameters: { type: "object" } }
const request = (parts: Array<any>, more: object = {}, configuration: object = {}): any => ({
  message: {
    kind: "message",
    messageId: randomUUID(),
    role: "user",
    parts,
    metadata: { [clientTools]: { client_tools: [tool] } },
    ...more
  },
  configuration: { blocking: true, ...configuration }
})
const text = (text: string) => ({ kind: "text", text })
const textOf = (task: any) => task.artifacts[0]?.parts[0]?.text
const failureOf = async (call: Promise<unknown>) => call.then(() => "none", (error: Error) => error.constructor.name)

const answered: any = await rules.sendMessage(request([text("What is 6 * 7?")]))
const file = { kind: "file", file: { bytes: btoa("hi\n"), name: "a.txt", mimeType: "text/plain" } }
const withFile: any = await rules.sendMessage(request([text("Describe the file."), file]))
const asked: any = await tools.sendMessage(request([text("call weather")]))
const [, { data }] = asked.status.message.parts
const tool_results = data.tool_calls.map(({ id }: { id: string }) => ({ tool_call_id: id, output: "clear" }))
const called: any = await tools.sendMessage(request([{ kind: "data", data: { tool_results } }], { taskId: asked.id }))
const events: Array<string> = []
let streamed = ""
for await (const event of rules.sendMessageStream(request([text("What is 6 * 7?")])) as AsyncIterable<any>) {
  if (events.at(-1) !== event.kind) events.push(event.kind)
  if (event.kind === "artifact-update") streamed = (event.append ? streamed : "") + event.artifact.parts[0].text
}
const running: any = await slow.sendMessage(request([text("60")], {}, { blocking: false }))
const subscription = slow.resubscribeTask({ id: running.id }) as AsyncGenerator<any>
const first = (await subscription.next()).value
const canceled: any = await slow.cancelTask({ id: running.id })
let last: any
for await (const event of subscription) last = event

console.log(JSON.stringify({
  answered: [answered.kind, answered.status.state, textOf(answered)],
  withFile: [withFile.status.state, /a\.txt/.test(textOf(withFile))],
  asked: [asked.status.state, data.tool_calls[0].name],
  called: [called.id === asked.id, called.status.state],
  streamed: [events, streamed],
  subscribed: [first.kind, last.status.state, last.final],
  canceled: canceled.status.state,
  got: (await rules.getTask({ id: answered.id })).id === answered.id,
  failures: [
    await failureOf(rules.getTask({ id: randomUUID() })),
    await failureOf(rules.cancelTask({ id: answered.id })),
    await failureOf(rules.resubscribeTask({ id: answered.id }).next())
  ]
}))
