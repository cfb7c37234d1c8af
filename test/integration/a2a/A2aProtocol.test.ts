/** Requirements of the specification's sections 3, 5, 8 and 9, by their numbers. */
import { assert, describe, it, onTestFinished } from "vitest"
import { fileName, ScriptedBackend } from "../../kit/ScriptedBackend.ts"
import { complete, interrupt, report, turnOf } from "../../kit/ScriptedCore.ts"
import { eventually, mint } from "../../kit/Service.ts"
import { send, strangersTo } from "../../kit/strangers.ts"
import { expectQuiet, use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { all, atOnce, clientOf, clientTools, messageOf, revision } from "./A2a.ts"

const { core, service } = await use(
  startSystem({ FACADE_MODELS: "analyst=20:2:3,writer=4", CORS_ORIGINS: "https://app.example" })
)
expectQuiet(service)

const unknown = "019a0000-0000-7000-8000-000000000000"
const refund = { name: "refund", description: "Refunds.", inputSchema: { type: "object" } }
const withTools = { metadata: { [clientTools]: { client_tools: [refund] } } }
const asks = { "a2a-extensions": `${revision}, ${clientTools}` }

const started = async (sub: string, more: object = {}) => {
  const client = await clientOf(service, sub)
  const { body } = await client.call("SendMessage", { message: messageOf("x", more), configuration: atOnce }, asks)
  const { task } = body.result
  return { client, task, run: await core.run(task.id) }
}

const refusal = async (call: ReturnType<Awaited<ReturnType<typeof clientOf>>["call"]>) => {
  const { body, status } = await call
  assert.strictEqual(status, 200)
  assert.strictEqual(body.id, 7)
  const [info] = body.error.data
  assert.strictEqual(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo")
  assert.strictEqual(info.domain, "a2a-protocol.org")
  return [body.error.code, info.reason]
}

describe("3.1 operations", () => {
  it("3.1.1 returns the task, and refuses messages to one that has ended or runs", async () => {
    const { client, run, task } = await started("sender")
    assert.strictEqual(task.id, run.task_id)
    assert.deepInclude(run, { assistant_id: 20, llm_model_id: 2, image_generator_id: 3 })
    assert.match(task.status.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const again = (more: object) =>
      refusal(client.call("SendMessage", { message: messageOf("y", { taskId: task.id, ...more }) }))
    const both = () => Promise.all([again({}), again({ parts: [{ data: { color: "blue" } }] })])
    const ended = [-32004, "UNSUPPORTED_OPERATION"]
    const refused: [typeof ended, typeof ended] = [ended, ended]
    assert.deepStrictEqual(await both(), refused)
    await complete(run)
    assert.deepStrictEqual(await both(), refused)
    const toUnknown = { message: messageOf("y", { taskId: unknown }) }
    assert.deepStrictEqual(await refusal(client.call("SendMessage", toUnknown)), [-32001, "TASK_NOT_FOUND"])
  })

  it("3.1.2 begins a stream with the task, sends what changes in order, and closes it at the end", async () => {
    const client = await clientOf(service, "streamer")
    const streamed = client.stream("SendStreamingMessage", { message: messageOf("x") }, asks)
    const { value: { task } } = await streamed.next() as { value: { task: { id: string; contextId: string } } }
    const run = await core.run(task.id)
    await report(run, { type: "processing" })
    assert.deepInclude((await streamed.next()).value.statusUpdate.status, { state: "TASK_STATE_WORKING" })
    const artifact = async (text: string) => {
      await report(run, { type: "progress", turn: turnOf(text) })
      const { artifactUpdate } = (await streamed.next()).value
      return [artifactUpdate.artifact.artifactId, artifactUpdate.artifact.parts[0].text, artifactUpdate.append]
    }
    assert.deepStrictEqual(await artifact("One"), ["output", "One", false])
    assert.deepStrictEqual(await artifact("One, two"), ["output", ", two", true])
    assert.deepStrictEqual(await artifact("Other"), ["output", "Other", false])
    const file = { id: "1", name: "a.png", mime_type: "image/png", provider_data: { path: "x/a.png" } }
    const output = [{ type: "text", text: "Other text." }, { type: "file", file }]
    await report(run, { type: "completed", turn: { output, messages: [], metadata: {} } })
    const [last, status, ...more] = await all(streamed)
    assert.deepStrictEqual(more, [])
    assert.isTrue(last.artifactUpdate.append)
    const [text, link] = last.artifactUpdate.artifact.parts
    assert.deepStrictEqual(text, { text: " text.", mediaType: "text/plain" })
    assert.deepInclude(link, { filename: "a.png", mediaType: "image/png" })
    assert.match(link.url, /\/x\/a\.png$/)
    const { contextId, metadata, taskId } = status.statusUpdate
    assert.deepInclude(status.statusUpdate.status, { state: "TASK_STATE_COMPLETED" })
    assert.deepStrictEqual([taskId, contextId], [task.id, task.contextId])
    const got = (await client.call("GetTask", { id: task.id }, asks)).body.result
    assert.deepStrictEqual(got.metadata, metadata)
    assert.deepStrictEqual(got.artifacts[0].parts[0].text, "Other text.")
  })

  it("3.1.3 and 3.2.4 return the task with as much of its history as is asked for", async () => {
    const { client, run, task } = await started("reader")
    const get = async (params: object) => (await client.call("GetTask", { id: task.id, ...params })).body.result
    const [first] = (await get({})).history
    assert.deepInclude(first, { role: "ROLE_USER", parts: [{ text: "x", mediaType: "text/plain" }], taskId: task.id })
    assert.match(first.messageId, /^m\d+$/)
    const messages = [
      { role: "user", content: "x" },
      { role: "assistant", content: [{ type: "text", text: "Hm." }], tool_calls: [] },
      { role: "tool", tool_call_id: "c1", content: "no" },
      { role: "assistant", content: "done" }
    ]
    await report(run, { type: "completed", turn: { ...turnOf("done"), messages } })
    const told = async (params: object) =>
      ((await get(params)).history ?? []).map(({ parts, role }: { role: string; parts: Array<{ text: string }> }) => [
        role,
        parts[0]!.text
      ])
    const history = [["ROLE_USER", "x"], ["ROLE_AGENT", "Hm."], ["ROLE_AGENT", "done"]]
    assert.deepStrictEqual(await told({}), history)
    assert.deepStrictEqual(await told({ historyLength: 2 }), history.slice(1))
    assert.notProperty(await get({ historyLength: 0 }), "history")
    assert.deepStrictEqual(await refusal(client.call("GetTask", { id: task.id, historyLength: -1 })), [
      -32602,
      "INVALID_PARAMS"
    ])
    assert.deepStrictEqual(await refusal(client.call("GetTask", {})), [-32602, "INVALID_PARAMS"])
  })

  it("3.1.4 lists the tasks of the user that were made over A2A, the last changed first, in pages", async () => {
    const client = await clientOf(service, "lister")
    const token = await mint("lister")
    await service.create(token, "not over A2A")
    const tasks = []
    for (const contextId of ["one", "two", "one"]) {
      const { body } = await client.call("SendMessage", {
        message: messageOf("x", { contextId }),
        configuration: atOnce
      })
      tasks.push(body.result.task.id)
    }
    await complete(await core.run(tasks[0]), "done")
    const list = async (params: object) => (await client.call("ListTasks", params)).body.result
    const ids = (found: { readonly tasks: ReadonlyArray<{ readonly id: string }> }) => found.tasks.map(({ id }) => id)
    const found = await list({ status: "UNRECOGNIZED" })
    assert.deepStrictEqual(ids(found), [tasks[0], tasks[2], tasks[1]])
    assert.deepInclude(found, { nextPageToken: "", pageSize: 50, totalSize: 3 })
    for (const task of found.tasks) assert.notProperty(task, "artifacts")
    const withArtifacts = await list({ includeArtifacts: true, contextId: "one" })
    assert.deepStrictEqual(ids(withArtifacts), [tasks[0], tasks[2]])
    assert.deepStrictEqual(
      withArtifacts.tasks.map(({ artifacts }: { artifacts: Array<unknown> }) => artifacts.length),
      [
        1,
        0
      ]
    )
    const first = await list({ pageSize: 2 })
    assert.deepStrictEqual(ids(first), [tasks[0], tasks[2]])
    const second = await list({ pageSize: 2, pageToken: first.nextPageToken })
    assert.deepStrictEqual([ids(second), second.nextPageToken, second.totalSize], [[tasks[1]], "", 3])
    assert.deepStrictEqual(ids(await list({ status: "TASK_STATE_COMPLETED" })), [tasks[0]])
    assert.deepStrictEqual(ids(await list({ status: "TASK_STATE_REJECTED" })), [])
    const [{ status }] = found.tasks
    assert.deepStrictEqual(ids(await list({ statusTimestampAfter: status.timestamp })), [])
    const last = found.tasks[2].status.timestamp
    assert.notInclude(ids(await list({ statusTimestampAfter: last })), tasks[1])
    const wrong = [
      { pageSize: 0 },
      { pageSize: 101 },
      { pageToken: "x" },
      { status: "working" },
      { statusTimestampAfter: "now" },
      { contextId: "x".repeat(256) }
    ]
    for (const params of wrong) {
      assert.deepStrictEqual(await refusal(client.call("ListTasks", params)), [-32602, "INVALID_PARAMS"])
    }
    assert.deepStrictEqual(ids((await (await clientOf(service, "nobody")).call("ListTasks")).body.result), [])
  })

  it("3.1.5 cancels work that runs or waits, repeatedly, and nothing that has ended otherwise", async () => {
    const { client, run, task } = await started("canceler")
    const cancel = () => client.call("CancelTask", { id: task.id })
    const { body } = await cancel()
    assert.strictEqual(body.result.status.state, "TASK_STATE_CANCELED")
    await core.stopped(run)
    assert.deepStrictEqual((await cancel()).body, body)
    const ended = await started("canceler")
    await complete(ended.run)
    assert.deepStrictEqual(await refusal(client.call("CancelTask", { id: ended.task.id })), [
      -32002,
      "TASK_NOT_CANCELABLE"
    ])
  })

  it("3.1.6 begins with the present task, and refuses one that has ended", async () => {
    const { client, run, task } = await started("subscriber")
    await report(run, { type: "progress", turn: turnOf("Half") })
    await eventually(
      async () => (await client.call("GetTask", { id: task.id })).body.result.artifacts.length,
      (count) => count === 1
    )
    const events = client.stream("SubscribeToTask", { id: task.id })
    const { value } = await events.next()
    assert.deepStrictEqual(value.task.artifacts[0].parts[0].text, "Half")
    await complete(run, "Half done")
    const [artifact, status] = await all(events)
    assert.deepStrictEqual([artifact.artifactUpdate.artifact.parts[0].text, artifact.artifactUpdate.append], [
      " done",
      true
    ])
    assert.strictEqual(status.statusUpdate.status.state, "TASK_STATE_COMPLETED")
    assert.deepStrictEqual(await refusal(client.call("SubscribeToTask", { id: task.id })), [
      -32004,
      "UNSUPPORTED_OPERATION"
    ])
    assert.deepStrictEqual(await refusal(client.call("SubscribeToTask", { id: unknown })), [-32001, "TASK_NOT_FOUND"])
  })

  it("3.1.6 sends the first 65,536 characters while the task runs, and all that follow at its end", async () => {
    const { client, run, task } = await started("writer")
    const long = "0123456789".repeat(10_000)
    await report(run, { type: "progress", turn: turnOf(long) })
    const events = client.stream("SubscribeToTask", { id: task.id })
    const { value } = await events.next()
    assert.strictEqual(value.task.artifacts[0].parts[0].text, long.slice(0, 65_536))
    await report(run, { type: "progress", turn: turnOf(`${long}!`) })
    await complete(run, `${long}!!`)
    const [artifact, status, ...more] = await all(events)
    assert.deepStrictEqual(more, [])
    assert.deepInclude(artifact.artifactUpdate, { append: true })
    assert.strictEqual(artifact.artifactUpdate.artifact.parts[0].text, `${long.slice(65_536)}!!`)
    assert.strictEqual(status.statusUpdate.status.state, "TASK_STATE_COMPLETED")
  })

  it("3.1.7 to 3.1.11 and 3.3.4 refuse what the card does not have", async () => {
    const client = await clientOf(service, "pusher")
    const methods = [
      ...["Create", "Get", "Delete"].map((verb) => `${verb}TaskPushNotificationConfig`),
      "ListTaskPushNotificationConfigs"
    ]
    for (const method of methods) {
      assert.deepStrictEqual(await refusal(client.call(method)), [-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"])
    }
    const configuration = { taskPushNotificationConfig: { url: "https://app.example/hook" } }
    assert.deepStrictEqual(await refusal(client.call("SendMessage", { message: messageOf("x"), configuration })), [
      -32003,
      "PUSH_NOTIFICATION_NOT_SUPPORTED"
    ])
    assert.deepStrictEqual(await refusal(client.call("GetExtendedAgentCard")), [-32004, "UNSUPPORTED_OPERATION"])
  })
})

it("3.2.2 holds the answer until the task has ended, or answers at once", async () => {
  const client = await clientOf(service, "holder")
  const message = messageOf("x")
  const held = client.call("SendMessage", { message })
  const { body } = await eventually(() => client.call("ListTasks"), ({ body }) => body.result.tasks.length === 1)
  const [{ id }] = body.result.tasks
  const run = await core.run(id)
  await complete(run, "held")
  const { task } = (await held).body.result
  assert.deepInclude(task.status, { state: "TASK_STATE_COMPLETED" })
  assert.deepStrictEqual(task.artifacts, [{ artifactId: "output", parts: [{ text: "held", mediaType: "text/plain" }] }])
  const replayed = (await client.call("SendMessage", { message, configuration: atOnce })).body.result.task
  assert.deepStrictEqual(replayed, task)
})

describe("3.3 semantics", () => {
  it("3.3.1 makes one task of a repeated message, and refuses another one with its id", async () => {
    const client = await clientOf(service, "repeater")
    const message = messageOf("x", { messageId: "any text \u00e4".repeat(40) })
    const send = () => client.call("SendMessage", { message, configuration: atOnce })
    const answers = await Promise.all([send(), send(), send()])
    assert.strictEqual(new Set(answers.map(({ body }) => body.result.task.id)).size, 1)
    const other = { ...message, parts: [{ text: "y" }] }
    assert.deepStrictEqual(await refusal(client.call("SendMessage", { message: other })), [-32602, "INVALID_PARAMS"])
  })

  it("3.3.1 uploads the files of a repeated message once, under a name without folders", async () => {
    const backend = await use(new ScriptedBackend().listen(), onTestFinished)
    const settings = { FACADE_MODELS: "analyst=20", ASSISTANT_BACKEND_URL: backend.url }
    const system = await use(startSystem(settings), onTestFinished)
    const client = await clientOf(system.service, "uploader")
    const part = { raw: btoa("notes"), filename: "../../notes.txt", mediaType: "text/plain" }
    const send = (more: object) =>
      client.call("SendMessage", {
        message: messageOf("x", { messageId: "with a file", parts: [{ ...part, ...more }] }),
        configuration: atOnce
      })
    const [first, again] = [await send({}), await send({})]
    assert.strictEqual(again.body.result.task.id, first.body.result.task.id)
    assert.deepStrictEqual(await refusal(send({ raw: btoa("other") })), [-32602, "INVALID_PARAMS"])
    assert.deepStrictEqual(backend.uploads.map(fileName), ["notes.txt"])
    const mediaType = "text/plain;\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.exe\""
    const injected = messageOf("x", { parts: [{ ...part, mediaType }] })
    assert.deepStrictEqual(await refusal(client.call("SendMessage", { message: injected })), [
      -32005,
      "CONTENT_TYPE_NOT_SUPPORTED"
    ])
    assert.lengthOf(backend.uploads, 1)
    const voice = { raw: btoa("x"), mediaType: "Audio/WebM;codecs=opus" }
    const sent = await client.call("SendMessage", {
      message: messageOf("x", { parts: [voice] }),
      configuration: atOnce
    })
    assert.property(sent.body.result, "task")
    assert.strictEqual(fileName(backend.last!), "file.webm")
  })

  it("3.3.2 asks for a token, and treats tasks of others like unknown ones", async () => {
    const response = await fetch(`${service.url}/a2a`, { method: "POST", body: "{}" })
    assert.strictEqual(response.status, 401)
    assert.match(response.headers.get("www-authenticate") ?? "", /^Bearer/)
    assert.isNumber((await response.json() as { error: { code: number } }).error.code)
    const { task } = await started("owner")
    const stranger = await clientOf(service, "stranger")
    for (const method of ["GetTask", "CancelTask", "SubscribeToTask"]) {
      const [own, none] = [await stranger.call(method, { id: task.id }), await stranger.call(method, { id: unknown })]
      assert.deepStrictEqual(own.body, none.body)
      assert.strictEqual(own.body.error.code, -32001)
    }
  })

  it("3.3.2 says which parameters are invalid", async () => {
    const client = await clientOf(service, "validator")
    const fieldsOf = async (params: unknown) => {
      const { error } = (await client.call("SendMessage", params)).body
      assert.strictEqual(error.code, -32602)
      return error.data[1].fieldViolations.map(({ field }: { field: string }) => field)
    }
    assert.deepStrictEqual(await fieldsOf({}), ["message"])
    const message = { messageId: "", role: "ROLE_AGENT", parts: [] }
    assert.sameMembers(await fieldsOf({ message }), ["message.messageId", "message.role", "message.parts"])
    assert.deepStrictEqual(await fieldsOf({ message: messageOf("x", { parts: [{}] }) }), ["message.parts.0"])
    assert.deepStrictEqual(await fieldsOf({ message: messageOf("x", { contextId: "x".repeat(256) }) }), [
      "message.contextId"
    ])
    const file = { raw: "!", filename: "a.txt", mediaType: "text/plain" }
    assert.deepStrictEqual(await fieldsOf({ message: messageOf("x", { parts: [file] }) }), ["message.parts"])
  })

  it("3.3.2 refuses files that are not accepted, and more tasks than a user may have", async () => {
    const client = await clientOf(service, "many")
    const send = (part: object) => client.call("SendMessage", { message: messageOf("x", { parts: [part] }) })
    const notSupported = [-32005, "CONTENT_TYPE_NOT_SUPPORTED"]
    assert.deepStrictEqual(await refusal(send({ url: "https://example.com/a.png" })), notSupported)
    assert.deepStrictEqual(await refusal(send({ raw: "AAAA", filename: "a.exe" })), notSupported)
    const start = () => client.call("SendMessage", { message: messageOf("x"), configuration: atOnce })
    for (let count = 0; count < 5; count++) assert.property((await start()).body.result, "task")
    const refused = await start()
    assert.match(refused.headers.get("retry-after") ?? "", /^\d+$/)
    assert.deepStrictEqual(await refusal(Promise.resolve(refused)), [-32603, "TOO_MANY_ACTIVE_TASKS"])
  })
})

describe("3.4 turns", () => {
  it("3.4.1 makes a context or keeps the given one, and 3.4.2 continues it and refuses a wrong one", async () => {
    const { client, run, task } = await started("talker")
    assert.strictEqual(task.contextId, task.id)
    const messages = [{ role: "user", content: "x" }, { role: "assistant", content: "Blue." }]
    await report(run, { type: "completed", turn: { ...turnOf("Blue."), messages } })
    await eventually(
      async () => (await client.call("GetTask", { id: task.id })).body.result.status.state,
      (state) => state === "TASK_STATE_COMPLETED"
    )
    const message = messageOf("And?", { contextId: task.contextId })
    const next = (await client.call("SendMessage", { message, configuration: atOnce })).body.result.task
    assert.strictEqual(next.contextId, task.contextId)
    assert.deepStrictEqual((await core.run(next.id))["turns"], messages)
    const named = await started("talker", { contextId: "my talk" })
    assert.strictEqual(named.task.contextId, "my talk")
    assert.deepStrictEqual(named.run["turns"], [])
    const wrong = { message: messageOf("x", { contextId: "another", taskId: named.task.id }) }
    assert.deepStrictEqual(await refusal(client.call("SendMessage", wrong)), [-32602, "INVALID_PARAMS"])
  })

  it("3.4.2 asks for results of tools, and continues the task with them", async () => {
    const { client, run, task } = await started("answerer", withTools)
    assert.deepStrictEqual(run["client_tools"], [{
      type: "function",
      name: "refund",
      description: "Refunds.",
      parameters: { type: "object" }
    }])
    const events = client.stream("SubscribeToTask", { id: task.id })
    await events.next()
    const calls = [
      { id: "c1", name: "refund", arguments: { order: 1 } },
      { id: "c2", name: "refund", arguments: { order: 2 } }
    ]
    await interrupt(run, { tool_calls: calls, turn: turnOf("May I?") })
    const { status } = (await all(events)).at(-1).statusUpdate
    assert.strictEqual(status.state, "TASK_STATE_INPUT_REQUIRED")
    assert.strictEqual(status.message.role, "ROLE_AGENT")
    assert.include(status.message.parts[0].text, "refund")
    assert.deepStrictEqual(status.message.parts[1].data, { tool_calls: calls })
    const answer = (parts: ReadonlyArray<object>, more: object = {}) =>
      client.call("SendMessage", {
        message: messageOf("", { taskId: task.id, parts, ...more }),
        configuration: atOnce
      })
    for (const parts of [[{ text: "yes" }], [{ data: { tool_results: [] } }], [{ data: {} }]]) {
      const { body } = await answer(parts)
      assert.strictEqual(body.error.code, -32602)
      assert.isNotEmpty(body.error.data[1].fieldViolations)
    }
    const tool_results = calls.map(({ id }) => ({ tool_call_id: id, output: { done: id }, is_error: false }))
    const message = { messageId: "the answer", contextId: task.contextId }
    const { body } = await answer([{ data: { tool_results } }], message)
    assert.strictEqual(body.result.task.status.state, "TASK_STATE_WORKING")
    const resumed = await core.run(task.id, run)
    assert.deepStrictEqual((resumed.resume as { results: unknown }).results, tool_results)
    assert.strictEqual((await answer([{ data: { tool_results } }], message)).body.result.task.id, task.id)
    await interrupt(resumed, { tool_calls: calls.slice(0, 1) })
    await eventually(
      async () => (await client.call("GetTask", { id: task.id })).body.result.status.state,
      (state) => state === "TASK_STATE_INPUT_REQUIRED"
    )
    await answer([{ text: "One." }])
    const last = await core.run(task.id, resumed)
    assert.deepStrictEqual((last.resume as { results: unknown }).results, [{ tool_call_id: "c1", output: "One." }])
  })

  it("gives no tools to a model for a client that does not ask for the extension", async () => {
    const client = await clientOf(service, "plain")
    const send = async (more: object) => {
      const message = messageOf("x", { ...withTools, ...more })
      const { body } = await client.call("SendMessage", { message, configuration: atOnce })
      return (await core.run(body.result.task.id))["client_tools"] as ReadonlyArray<unknown>
    }
    assert.deepStrictEqual(await send({}), [])
    assert.lengthOf(await send({ extensions: [clientTools] }), 1)
  })
})

it("3.5.2 sends the same events to every stream of a task, and closing one ends no other", async () => {
  const { client, run, task } = await started("twins")
  const streams = [1, 2, 3].map(() => client.stream("SubscribeToTask", { id: task.id }))
  for (const stream of streams) await stream.next()
  await streams[2]!.return()
  const open = streams.slice(0, 2)
  // A stream may send what changed between two of its reads as one event.
  const next = async () => (await Promise.all(open.map((stream) => stream.next()))).map(({ value }) => value)
  await report(run, { type: "processing" })
  for (const { statusUpdate } of await next()) assert.strictEqual(statusUpdate.status.state, "TASK_STATE_WORKING")
  await report(run, { type: "progress", turn: turnOf("Half") })
  for (const { artifactUpdate } of await next()) assert.strictEqual(artifactUpdate.artifact.parts[0].text, "Half")
  await complete(run, "Half done")
  const [one, other] = await Promise.all(open.map(all))
  assert.deepStrictEqual(one, other)
})

describe("3.6 versions", () => {
  it("3.6.2 compares the major and minor number, and refuses versions that it does not speak", async () => {
    const { client, task } = await started("versions")
    const get = (version: string, method = "GetTask") =>
      client.call(method, { id: task.id }, { "a2a-version": version })
    assert.strictEqual((await get("1.0.3")).body.result.id, task.id)
    assert.notProperty((await get("1.0")).body.result, "kind")
    for (const version of ["", "0.3", "0.3.0"]) {
      assert.deepInclude((await get(version, "tasks/get")).body.result, { id: task.id, kind: "task" })
    }
    assert.strictEqual((await get("0.3")).body.error.code, -32601)
    assert.strictEqual((await get("1.0", "tasks/get")).body.error.code, -32601)
    for (const version of ["2.0", "0.2", "1", "x"]) {
      assert.deepStrictEqual(await refusal(get(version)), [-32009, "VERSION_NOT_SUPPORTED"])
    }
    const message = { jsonrpc: "2.0", id: 1, method: "GetTask", params: { id: task.id } }
    const { body } = await service.call("POST", "/a2a?A2A-Version=1.0", await mint("versions"), message)
    assert.strictEqual(body.result.id, task.id)
  })
})

describe("8 cards", () => {
  const card = (path: string, headers = {}) => fetch(`${service.url}${path}/.well-known/agent-card.json`, { headers })

  it("name the Host of a request of this machine, and of no other", async () => {
    const { port } = new URL(service.url)
    const addressIn = async (headers: Readonly<Record<string, string>>) =>
      /"url":"([^"]+)"/.exec(await send(service.url, "/.well-known/agent-card.json", headers))?.[1]
    assert.strictEqual(await addressIn({ host: "localhost:8080" }), "http://localhost:8080/a2a")
    for (const headers of strangersTo(port)) {
      assert.strictEqual(await addressIn(headers), `${service.url}/a2a`, JSON.stringify(headers))
    }
  })

  it("8.2 and 8.6 give the card of each model without a token, once per version of it", async () => {
    const plain = await card("")
    assert.strictEqual(plain.headers.get("cache-control"), "max-age=300")
    const { name, supportedInterfaces, url, ...rest } = await plain.json() as Record<string, unknown>
    assert.strictEqual(name, "analyst")
    assert.strictEqual(url, `${service.url}/a2a`)
    assert.deepStrictEqual(
      supportedInterfaces,
      ["1.0", "0.3"].map((protocolVersion) => ({ url, protocolBinding: "JSONRPC", protocolVersion }))
    )
    assert.deepInclude(rest, { preferredTransport: "JSONRPC", protocolVersion: "0.3.0" })
    const etag = plain.headers.get("etag")!
    const again = await card("", { "if-none-match": etag })
    assert.deepStrictEqual([again.status, again.headers.get("etag")], [304, etag])
    for (const base of ["/a2a", "/a2a/writer"]) {
      const posted = await fetch(`${service.url}${base}/.well-known/agent-card.json`, { method: "POST" })
      assert.deepStrictEqual([posted.status, posted.headers.get("allow")], [405, "GET, HEAD"])
    }
    const writer = await card("/a2a/writer")
    assert.notStrictEqual(writer.headers.get("etag"), etag)
    assert.deepInclude(await writer.json() as Record<string, unknown>, {
      name: "writer",
      url: `${service.url}/a2a/writer`
    })
    assert.strictEqual((await card("/a2a/assistant-9")).status, 200)
    assert.strictEqual((await card("/a2a/nobody")).status, 404)
  })

  it("runs the model of the address", async () => {
    const client = await clientOf(service, "modeler")
    const send = (path: string) =>
      client.post(
        JSON.stringify({
          jsonrpc: "2.0",
          id: 1,
          method: "SendMessage",
          params: { message: messageOf("x"), configuration: atOnce }
        }),
        {},
        path
      )
    for (const path of ["/a2a/writer", "/a2a/4/"]) {
      const { result } = await (await send(path)).json() as { result: { task: { id: string } } }
      assert.strictEqual((await core.run(result.task.id))["assistant_id"], 4)
    }
    assert.strictEqual((await send("/a2a/nobody")).status, 404)
  })
})

describe("9 JSON-RPC", () => {
  it("9.1 and 9.3 refuse what is no request", async () => {
    const client = await clientOf(service, "jsonrpc")
    const code = async (body: string) => {
      const response = await client.post(body)
      assert.strictEqual(response.headers.get("content-type"), "application/json")
      return (await response.json() as { error: { code: number }; id: unknown }).error.code
    }
    assert.strictEqual(await code("{"), -32700)
    for (const body of ["[]", "1", "{}", `{"jsonrpc":"1.0","id":1,"method":"GetTask"}`, `{"jsonrpc":"2.0","id":1}`]) {
      assert.strictEqual(await code(body), -32600, body)
    }
    assert.strictEqual(await code(`{"jsonrpc":"2.0","id":{},"method":"GetTask"}`), -32600)
    assert.strictEqual(await code(`{"jsonrpc":"2.0","id":1.5,"method":"GetTask"}`), -32600)
    assert.strictEqual(await code(`{"jsonrpc":"2.0","id":1,"method":1}`), -32600)
    assert.strictEqual(await code(`{"jsonrpc":"2.0","id":1,"result":{}}`), -32600)
    assert.strictEqual(await code(`[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]`), -32600)
    const exact = await (await client.post(`{"jsonrpc":"2.0","id":9007199254740993,"method":"Nothing"}`)).text()
    assert.include(exact, `"id":9007199254740993`)
    assert.strictEqual(await code(`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}`), -32600)
    assert.strictEqual(await code(`{"jsonrpc":"2.0","id":1,"method":"Nothing"}`), -32601)
    assert.strictEqual((await client.post("x".repeat(17 * 1024 * 1024))).status, 413)
    assert.strictEqual((await fetch(`${service.url}/a2a`)).status, 405)
  })

  it("9.2 lets web pages of other origins send the headers of the protocol", async () => {
    const { headers } = await fetch(`${service.url}/a2a`, {
      method: "OPTIONS",
      headers: { origin: "https://app.example", "access-control-request-method": "POST" }
    })
    const allowed = headers.get("access-control-allow-headers") ?? ""
    for (const header of ["A2A-Version", "A2A-Extensions", "X-A2A-Extensions"]) assert.include(allowed, header)
  })
})

describe("version 0.3", () => {
  const legacy = (sub: string) => clientOf(service, sub, "0.3")
  const message = (text: string, more: object = {}) => ({
    ...messageOf(text),
    kind: "message",
    role: "user",
    parts: [{ kind: "text", text }],
    ...more
  })

  it("sends and streams tasks in the shapes of that version", async () => {
    const client = await legacy("old streamer")
    const events = client.stream("message/stream", { message: message("x") })
    const { value: task } = await events.next()
    assert.deepInclude(task, { kind: "task", contextId: task.id })
    const run = await core.run(task.id)
    await complete(run, "done")
    const [artifact, status] = (await all(events)).slice(-2)
    assert.deepStrictEqual(artifact, {
      kind: "artifact-update",
      taskId: task.id,
      contextId: task.id,
      artifact: { artifactId: "output", parts: [{ kind: "text", text: "done" }] },
      append: false
    })
    assert.deepInclude(status, { kind: "status-update", taskId: task.id, final: true })
    assert.strictEqual(status.status.state, "completed")
    const { result } = (await client.call("tasks/get", { id: task.id })).body
    assert.deepInclude(result.history[0], { kind: "message", role: "user", parts: [{ kind: "text", text: "x" }] })
    const { error } = (await client.call("tasks/resubscribe", { id: task.id })).body
    assert.deepStrictEqual([error.code, error.data], [-32004, undefined])
  })

  it("waits for the end unless blocking is false, uploads files, asks for tools and cancels", async () => {
    const client = await legacy("old sender")
    const parts = [
      { kind: "text", text: "x" },
      { kind: "data", data: { a: 1 } },
      { kind: "file", file: { bytes: "aGk=", name: "a.txt", mimeType: "text/plain" } }
    ]
    const given = message("x", { parts, ...withTools })
    const { body } = await client.call("message/send", { message: given, configuration: { blocking: false } }, {
      "x-a2a-extensions": clientTools
    })
    const run = await core.run(body.result.id)
    assert.deepStrictEqual(run.input.map(({ text, type }) => [type, text]), [
      ["text", "x"],
      ["text", "{\"a\":1}"],
      ["file", undefined]
    ])
    await interrupt(run, { tool_calls: [{ id: "c1", name: "refund", arguments: {} }] })
    const { result } = await eventually(
      async () => (await client.call("tasks/get", { id: body.result.id })).body,
      ({ result }) => result.status.state === "input-required"
    )
    assert.strictEqual(result.status.message.parts[1].kind, "data")
    const answered = client.call("message/send", { message: message("yes", { taskId: body.result.id }) })
    await complete(await core.run(body.result.id, run), "Refunded.")
    assert.strictEqual((await answered).body.result.status.state, "completed")
    const other = await client.call("message/send", { message: message("y"), configuration: { blocking: false } })
    const canceled = await client.call("tasks/cancel", { id: other.body.result.id })
    assert.strictEqual(canceled.body.result.status.state, "canceled")
    for (const verb of ["set", "get", "list", "delete"]) {
      assert.strictEqual((await client.call(`tasks/pushNotificationConfig/${verb}`)).body.error.code, -32003)
    }
    assert.strictEqual((await client.call("agent/getAuthenticatedExtendedCard")).body.error.code, -32007)
  })
})
