/** The service with the tools that the conformance kit calls: each runs an assistant with the call as its prompt. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { encode, fromValue, textOf } from "../../../src/domain/json/OpaqueJson.ts"
import { RawJson } from "../../../src/domain/json/RawJson.ts"
import { Kind } from "../../../src/domain/json/tables.ts"
import { Make, type Tool } from "../../../src/http/mcp/Tools.ts"
import * as App from "../../../src/runtime/App.ts"
import * as AppConfig from "../../../src/runtime/config/AppConfig.ts"

const tool = (name: string, call: Tool["call"]): Tool => ({
  name,
  listed: { name, description: name, inputSchema: { type: "object" } },
  call
})

const text = (text: string, isError = false) => ({ content: [{ type: "text", text }], isError })

const fixed = (name: string, answer: (args: { readonly [name: string]: unknown }) => ReturnType<typeof text>) =>
  tool(
    name,
    (_, args) =>
      Effect.succeed({ _tag: "Result", result: answer(JSON.parse(args === undefined ? "{}" : textOf(args.bytes))) })
  )

const form = { type: "object", properties: { confirm: { type: "boolean" }, name: { type: "string" } } }

/** A tool that runs an assistant. */
const running = (name: string, run: Tool) =>
  tool(name, (caller, args) => {
    const prompt = JSON.stringify({ name, ...JSON.parse(args === undefined ? "{}" : textOf(args.bytes)) })
    const client_tools = [{ name, inputSchema: { type: "object" }, outputSchema: form }]
    const given = { assistant: 1, prompt, wait_seconds: 5, client_tools }
    return run.call(caller, new RawJson(Kind.object, encode(fromValue(given))))
  })

const jobs = ["slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input"]

NodeRuntime.runMain(
  Effect.flatMap(AppConfig.load(process.env), (config) => Layer.launch(App.layer(config))).pipe(
    Effect.updateService(
      Make,
      Effect.map((tools) => [
        ...tools,
        fixed("greet", ({ name }) => text(`Hello, ${String(name)}!`)),
        fixed("test_simple_text", () => text("This is a simple text response for testing.")),
        fixed("test_error_handling", () => text("This tool intentionally returns an error for testing", true)),
        ...jobs.map((name) => running(name, tools[0]!))
      ])
    )
  )
)
