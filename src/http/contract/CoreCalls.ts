/** The calls of the service to the processing core, for the internal document. They are webhooks there: the core serves them. */
import { Schema } from "effect"
import { RunAccepted, StartRun } from "../../domain/CoreProtocol.ts"
import { createdAt, turn, uuid } from "./Examples.ts"
import type { Node } from "./OpaqueSchemas.ts"
import { asExample, cleanNode } from "./Operation.ts"

/** The JSON Schema with its definitions inserted. */
const inlined = (schema: Schema.Constraint): Node => {
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema)
  return cleanNode(JSON.parse(JSON.stringify(root), (_, value) => {
    const name = /^#\/\$defs\/(.+)$/.exec(value?.$ref ?? "")?.[1]
    return name === undefined ? value : definitions[name]
  }))
}

const run: typeof StartRun.Encoded = {
  task_id: uuid,
  run_id: "019ac5d2-8001-7b10-a5f3-90b1c2d3e4f5",
  assistant_id: 1,
  input: [{ type: "text", text: "Summarize the report." }],
  turns: [],
  client_tools: [],
  llm_model_id: null,
  image_generator_id: null,
  user: { sub: "ann" },
  user_token: "eyJhbGciOiJIUzI1NiJ9.e30.x",
  deadline_at: createdAt,
  events_url: "https://tasks.example/internal/core/events",
  resume: null
}

/** Only clients of other protocols can ask for options. */
const withOptions = {
  ...run,
  options: {
    max_output_tokens: 500,
    response_format: {
      type: "json_schema",
      name: "summary",
      schema: { type: "object", properties: { title: { type: "string" } } }
    }
  }
}

const resumed = { ...run, resume: { state: { turn }, results: [{ tool_call_id: "call_1", output: { celsius: 21 } }] } }

const json = (schema: Node, examples: Node) => ({ "application/json": { schema, examples } })

const retryAfterHeader = {
  "Retry-After": {
    description: "When the core is asked again, at most: seconds or an HTTP date, up to a minute. 1 s without it.",
    schema: { type: "string" }
  }
}

/** 429 and 503 with `Retry-After`. */
const noRoom =
  "The core has no room and took nothing. The task waits in the queue, however long, and this is no failure: its 30 s count from the "
  + "next dispatch. The service sends no run before `Retry-After` has passed or one of its runs at this core has ended."

const retried = {
  description:
    "The outcome is unknown. Retried within the acceptance timeout: after 200 ms, doubling up to 5 s, or after `Retry-After`, up to a "
    + "minute; the last time 2 s before the task's next deadline. So are other 5xx."
}

const startRun: Node = {
  operationId: "startRun",
  summary: "POST {CORE_URL}/runs: start a run",
  description:
    "Sent with `Authorization: Bearer CORE_TOKEN`. **The answer does not accept the run: the first event does**, which the core sends to "
    + "`events_url` (`processing` or a later one) within 30 s of the dispatch (`ACCEPTANCE_TIMEOUT`); otherwise the task fails. A resumed run has "
    + "only the time limit of its task. Idempotent by `run_id`: a core that has the run answers 2xx and goes on. The service "
    + "repeats a start after a lost answer, after a restart of its own, and after a declared silence. A call times out after 10 s.",
  tags: ["core"],
  security: [],
  requestBody: {
    required: true,
    content: json(inlined(StartRun), {
      first: { value: run },
      resumed: { value: resumed },
      options: { value: withOptions }
    })
  },
  responses: {
    "2XX": {
      description: "The core has received the run, and reports its first event within 30 s. The body is optional.",
      content: json(inlined(RunAccepted), asExample({ silence_seconds: 60 }))
    },
    408: retried,
    429: { description: noRoom, headers: retryAfterHeader },
    503: {
      description: `With \`Retry-After\`: as 429. Without it: the outcome is unknown, as with 408.`,
      headers: retryAfterHeader
    },
    "4XX": { description: "The task fails, unless the core has accepted the run before." }
  }
}

const stopRun: Node = {
  operationId: "stopRun",
  summary: "POST {CORE_URL}/runs/{run_id}/stop: stop a run",
  description:
    "Sent with `Authorization: Bearer CORE_TOKEN`, and retried from 1 s, doubling up to a minute, until it is confirmed.",
  tags: ["core"],
  security: [],
  requestBody: {
    required: true,
    content: json({
      type: "object",
      required: ["reason"],
      properties: {
        reason: {
          type: "string",
          description:
            "Why: `canceled`, `time_limit_exceeded`, `token_revoked`, `not_accepted` (30 s passed), `refused` (a later start was). Others may follow."
        }
      }
    }, asExample({ reason: "canceled" }))
  },
  responses: {
    "2XX": { description: "The run is stopped." },
    404: { description: "The core does not know the run." }
  }
}

export const coreCalls: Node = { startRun: { post: startRun }, stopRun: { post: stopRun } }
