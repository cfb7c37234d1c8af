/** The `run` that the author's function gets. */
import { FilesResource } from "../promise/FilesResource.ts"
import { randomId, Transport } from "../promise/Transport.ts"
import type { ClientTool, InputItem, JsonObject, ToolResult } from "../promise/Types.ts"
import type { Run, RunFiles, StoredItem } from "./CoreTypes.ts"
import { Interrupt, toTurn, type UsageMeter } from "./Outcome.ts"
import type { Progress } from "./Progress.ts"

/** The body of `POST /runs`. */
export interface StartRun {
  readonly task_id: string
  readonly run_id: string
  readonly events_url: string
  readonly assistant_id: number
  readonly input?: ReadonlyArray<InputItem>
  readonly turns?: ReadonlyArray<JsonObject>
  readonly client_tools?: ReadonlyArray<ClientTool>
  readonly llm_model_id?: number | null
  readonly image_generator_id?: number | null
  readonly user?: { readonly sub: string }
  readonly user_token?: string
  readonly options?: JsonObject | null
  readonly deadline_at?: string
  readonly resume?: { readonly state: unknown; readonly results: ReadonlyArray<ToolResult> } | null
}

const promptOf = (input: ReadonlyArray<InputItem>): string =>
  input.flatMap((item) => item.type === "text" && typeof item.text === "string" ? [item.text] : []).join("\n\n")

/** The text of a message, whose content is a text or parts. */
const textOf = (content: unknown): string =>
  typeof content === "string" ? content : Array.isArray(content) ? promptOf(content) : ""

const roles: ReadonlySet<unknown> = new Set(["system", "user", "assistant"])

/** Without calls of tools and their results: models refuse one without the other. */
const modelMessagesOf = ({ input = [], turns = [] }: StartRun) =>
  [...turns, { role: "user", content: input }].flatMap(({ content, role }) => {
    const text = textOf(content)
    return roles.has(role) && text !== "" ? [{ role, content: text } as Run["messages"][number]] : []
  })

/** The conversation up to the answer, as a later task continues it. */
export const messagesOf = ({ input = [], turns = [] }: StartRun): ReadonlyArray<object> => [
  ...turns,
  { role: "user", content: input }
]

/** The base URL of the service's interface: that of its events. */
const baseUrlOf = (eventsUrl: string) => eventsUrl.replace(/\/internal\/core\/events$/, "")

const pathOf = (item: StoredItem | string): string => {
  if (typeof item === "string") return item
  const path = item.file?.provider_data?.path
  if (typeof path !== "string") throw new TypeError("The item has no file with provider_data.path")
  return path
}

const filesOf = (
  { events_url, user_token = "" }: StartRun,
  serviceUrl: string | undefined,
  fetch: typeof globalThis.fetch,
  signal: AbortSignal
): RunFiles => {
  const files = new FilesResource(
    new Transport({ baseUrl: serviceUrl ?? baseUrlOf(events_url), token: user_token, fetch })
  )
  return {
    upload: (content, options) => files.upload(content, { signal, ...options }),
    url: (file, options) => files.url(file, { signal, ...options }),
    download: async (item) => {
      const url = await files.url(pathOf(item), { signal })
      const response = await fetch(url, { signal })
      if (!response.ok) throw new Error(`GET ${url} answered ${response.status}`)
      return response
    }
  }
}

interface Parts {
  readonly body: StartRun
  readonly signal: AbortSignal
  readonly progress: Progress
  readonly usage: UsageMeter
  readonly state: unknown
  readonly serviceUrl: string | undefined
  readonly fetch: typeof globalThis.fetch
}

export const makeRun = (
  { body, fetch, progress, serviceUrl, signal, state, usage }: Parts
): Run => {
  const { input = [], resume = null } = body
  return {
    taskId: body.task_id,
    runId: body.run_id,
    assistantId: body.assistant_id,
    input,
    prompt: promptOf(input),
    turns: body.turns ?? [],
    messages: modelMessagesOf(body),
    clientTools: body.client_tools ?? [],
    llmModelId: body.llm_model_id ?? null,
    imageGeneratorId: body.image_generator_id ?? null,
    user: body.user ?? { sub: "" },
    userToken: body.user_token ?? "",
    options: body.options ?? {},
    deadline: new Date(body.deadline_at ?? 8.64e15),
    signal,
    resumed: resume !== null,
    results: resume?.results ?? [],
    state,
    files: filesOf(body, serviceUrl, fetch, signal),
    text: (chunk) => progress.text(String(chunk)),
    progress: (turn) => progress.replace(toTurn(turn)),
    usage: usage.add,
    interrupt: ({ calls, state: left, turn }) => {
      const given = calls.map((call) => ({ ...call, id: call.id ?? `call_${randomId()}` }))
      return new Interrupt(given, left, turn === undefined ? undefined : toTurn(turn))
    }
  }
}
