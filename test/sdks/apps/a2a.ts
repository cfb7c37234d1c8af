/** The official client of version 1.0: every method. */
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory } from "@a2a-js/sdk/client"
import { randomUUID } from "node:crypto"

const authorization = `Bearer ${process.env["TOKEN"]}`
const uri = (name: string) => `urn:async-task-service:a2a:${name}:v1`
const extensions = [uri("client-tools"), uri("revision")]
const fetchImpl: typeof fetch = (input, init) =>
  fetch(input, {
    ...init,
    headers: { ...init?.headers as Record<string, string>, authorization, "A2A-Extensions": extensions.join() }
  })
const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory({ fetchImpl })]
  })
)
const agent = (path = "/") => factory.createFromUrl(`${process.env["SERVICE_URL"]}${path}`)
const [rules, tools, slow] = await Promise.all([agent(), agent("/a2a/2/"), agent("/a2a/3/")])

const states = ["", "SUBMITTED", "WORKING", "COMPLETED", "FAILED", "CANCELED", "INPUT_REQUIRED", "REJECTED"]
const tool = { type: "function", name: "weather", description: "Weather", parameters: { type: "object" } }
const request = (parts: Array<any>, more: object = {}, configuration: object = {}): any => ({
  tenant: "",
  message: {
    messageId: randomUUID(),
    contextId: "",
    taskId: "",
    role: 1,
    parts: parts.map((content) => ({ content, metadata: undefined, filename: "a.txt", mediaType: "text/plain" })),
    metadata: { [uri("client-tools")]: { client_tools: [tool] } },
    extensions: [],
    referenceTaskIds: [],
    ...more
  },
  configuration: {
    acceptedOutputModes: [],
    taskPushNotificationConfig: undefined,
    historyLength: undefined,
    returnImmediately: false,
    ...configuration
  },
  metadata: undefined
})
const text = (value: string) => ({ $case: "text", value })
const textOf = (task: any) => task.artifacts[0]?.parts[0]?.content.value
const stateOf = (task: any) => states[task.status.state]
const failureOf = async (call: Promise<unknown>) => call.then(() => "none", (error: Error) => error.constructor.name)
const byId = (id: string): any => ({ tenant: "", id, historyLength: undefined, metadata: undefined })
const everyTask: any = { tenant: "", contextId: "", status: -1, pageToken: "" }

const answered: any = await rules.sendMessage(request([text("What is 6 * 7?")]))
const continued: any = await rules.sendMessage(request([text("What is 1 + 1?")], { contextId: answered.contextId }))
const withFile: any = await rules.sendMessage(
  request([text("Describe the file."), { $case: "raw", value: Buffer.from("hi\n") }])
)
const asked: any = await tools.sendMessage(request([text("call weather")]))
const [, data] = asked.status.message.parts
const results = data.content.value.tool_calls.map(({ id }: { id: string }) => ({ tool_call_id: id, output: "clear" }))
const called: any = await tools.sendMessage(
  request([{ $case: "data", value: { tool_results: results } }], { taskId: asked.id, contextId: asked.contextId })
)
const events: Array<string> = []
let streamed = ""
for await (const { payload } of rules.sendMessageStream(request([text("What is 6 * 7?")]))) {
  const { $case, value } = payload as any
  if (events.at(-1) !== $case) events.push($case)
  if ($case === "artifactUpdate") streamed = (value.append ? streamed : "") + value.artifact.parts[0].content.value
}
const running: any = await slow.sendMessage(request([text("60")], {}, { returnImmediately: true }))
const subscription = slow.resubscribeTask(byId(running.id))
const first: any = (await subscription.next()).value
const canceled: any = await slow.cancelTask(byId(running.id))
let last: any
for await (const { payload } of subscription) last = payload
const { tasks } = await rules.listTasks(everyTask)

console.log(JSON.stringify({
  answered: [stateOf(answered), textOf(answered)],
  continued: [continued.contextId === answered.contextId, textOf(continued)],
  withFile: [stateOf(withFile), /a\.txt/.test(textOf(withFile))],
  asked: [stateOf(asked), data.content.value.tool_calls[0].name],
  called: [called.id === asked.id, stateOf(called)],
  streamed: [events, streamed],
  subscribed: [first.payload.$case, states[last.value.status.state]],
  canceled: stateOf(canceled),
  got: [(await rules.getTask(byId(answered.id))).metadata?.["revision"] !== undefined],
  listed: tasks.length,
  failures: [
    await failureOf(rules.getTask(byId(randomUUID()))),
    await failureOf(rules.cancelTask(byId(answered.id))),
    await failureOf(rules.resubscribeTask(byId(answered.id)).next()),
    await failureOf(rules.sendMessage(request([{ $case: "url", value: "https://example.com" }]))),
    await failureOf((async () => rules.createTaskPushNotificationConfig({ taskId: answered.id } as any))())
  ]
}))
