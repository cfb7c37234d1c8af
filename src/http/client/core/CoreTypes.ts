/** The options that an author of a core gives, and the run that the author's function gets. Inner values keep the names of the wire. */
import type { FilesResource } from "../promise/FilesResource.ts"
import type { ClientTool, InputItem, JsonObject, ToolResult, Turn } from "../promise/Types.ts"
import type { Interrupt, InterruptCall, UsageReport } from "./Outcome.ts"

export interface StoredItem {
  readonly file?: { readonly provider_data?: { readonly path?: string | null | undefined } | null | undefined }
}

/** The files of the task's user. */
export interface RunFiles extends Pick<FilesResource, "upload" | "url"> {
  /** The response with the content of a file: of an input item, an uploaded file, or a storage path. */
  readonly download: (item: StoredItem | string) => Promise<Response>
}

/** One run of a task: from its dispatch, or from the answers to its tool calls, to its end or the next tool calls. */
export interface Run {
  readonly taskId: string
  /** The same when a lost run is begun again. */
  readonly runId: string
  readonly assistantId: number
  readonly input: ReadonlyArray<InputItem>
  /** The texts of the input, joined by blank lines. */
  readonly prompt: string
  /** The conversation so far, oldest first. */
  readonly turns: ReadonlyArray<JsonObject>
  /** The texts of the conversation and of the input, as models take them. */
  readonly messages: ReadonlyArray<{ readonly role: "system" | "user" | "assistant"; readonly content: string }>
  readonly clientTools: ReadonlyArray<ClientTool>
  readonly llmModelId: number | null
  readonly imageGeneratorId: number | null
  readonly user: { readonly sub: string }
  /** The user's own token, for calls on the user's behalf. */
  readonly userToken: string
  /** `max_output_tokens` and `response_format`, when a client gave them. */
  readonly options: JsonObject
  readonly deadline: Date
  /** Aborted by a stop, by the deadline, and when the process gives the run up. Its reason is a `RunStopped`. */
  readonly signal: AbortSignal
  /** True if the run goes on after tool calls. */
  readonly resumed: boolean
  /** The answers to the calls of the interrupt; empty unless resumed. */
  readonly results: ReadonlyArray<ToolResult>
  /** The state of the interrupt, as it was left; null unless resumed. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the author's own JSON
  readonly state: any
  readonly files: RunFiles
  /** Adds to the text that the user sees while the run goes on. Never waits. */
  readonly text: (chunk: string) => void
  /** Replaces what the user sees of the result so far: a text or a turn. Never waits; of several in a second the last is sent. */
  readonly progress: (turn: Turn | string) => void
  readonly usage: (usage: UsageReport) => void
  /** Return it to wait for answers to client tools: `return run.interrupt({ calls, state })`. */
  readonly interrupt: (interrupt: {
    readonly calls: ReadonlyArray<InterruptCall>
    /** Any JSON. The resumed run gets it back. */
    readonly state?: unknown
    readonly turn?: Turn | string | undefined
  }) => Interrupt
}

export interface CoreLog {
  readonly info: (message: string) => void
  readonly error: (message: string, cause?: unknown) => void
}

export interface CoreOptions {
  /** Returns a text, a turn, any other JSON, or `run.interrupt(…)`. Without a result the text of `run.text` is the result. */
  readonly run: (run: Run) => unknown
  /** Runs at a time. More wait in the service's queue. Default: 16. */
  readonly runs?: number | undefined
  /** The service's `CORE_TOKEN`; several during a rotation. Default: the environment's `CORE_TOKEN`, a comma list. */
  readonly token?: string | ReadonlyArray<string> | undefined
  /** The token of the run's events, one of the service's `CORE_EVENT_TOKENS`. Default: the first of the environment's. */
  readonly eventToken?: string | undefined
  /**
   * Base URL of the service as this process reaches it. Events, with their token, go there and nowhere else. Default: to the
   * `events_url` of each run.
   */
  readonly serviceUrl?: string | undefined
  /**
   * Says that several processes serve one URL, and that `run` is idempotent by `runId` over all of them. The workers of `node:cluster`
   * declare a silence only with it.
   */
  readonly replicated?: boolean | undefined
  /**
   * Seconds of silence after which the service begins a run again with the same `runId`, 10 to 3600. Default: 60, which is right while
   * one process serves the URL. `null`: never; for several processes that are not idempotent together.
   */
  readonly silenceSeconds?: number | null | undefined
  /** Seconds that runs may go on after a stop of the process. Default: 60. */
  readonly drainSeconds?: number | undefined
  readonly log?: CoreLog | undefined
  readonly fetch?: typeof globalThis.fetch | undefined
}
