/** Every JSON body of REST and RPC, by name, so that another thread can decode it. */
import { Effect, identity } from "effect"
import { CoreEvent, type CoreReport, toReport } from "../../../domain/CoreProtocol.ts"
import * as Limits from "../../../domain/Limits.ts"
import { type CreateTask, CreateTaskBody, toCreateTask } from "../../../domain/TaskRequest.ts"
import { type Overrides, RerunBody, toOverrides } from "../../../domain/TaskRerun.ts"
import { type ToolResults, toToolResults } from "../../../domain/ToolCall.ts"
import { redeliveries, RedeliverManyBody } from "../../contract/OperatorSchemas.ts"
import { CancelBody, RedeliverBody, ToolResultsBody } from "../../contract/TaskSchemas.ts"
import { RevokeBody, TokenBody } from "../../contract/TokenSchemas.ts"
import * as OpenAiRequest from "../../facades/openai/Request.ts"
import { type BodyKind, kind } from "./JsonBody.ts"

/** The decoded type of each body. */
interface Decoded {
  readonly createTask: CreateTask
  readonly rerunTask: Overrides
  readonly toolResults: ToolResults
  readonly cancel: { readonly reason: string | null }
  readonly redeliver: typeof RedeliverBody.Type
  readonly coreEvent: CoreReport
  readonly revokeTokens: RevokeBody
  readonly token: TokenBody
  readonly createResponse: OpenAiRequest.CreateResponse | OpenAiRequest.Problem
  readonly redeliverMany: typeof RedeliverManyBody.Type
}

export type BodyName = keyof Decoded
export type BodyOf<Name extends BodyName> = Decoded[Name]

const maxItems = { input: Limits.inputItems, turns: Limits.turns, client_tools: Limits.clientTools }

const createResponse = kind(OpenAiRequest.CreateResponseBody, {
  maxItems: { input: Limits.turns, tools: Limits.clientTools },
  to: identity
})

export const bodies: { readonly [Name in BodyName]: BodyKind<BodyOf<Name>> } = {
  createTask: kind(CreateTaskBody, { maxItems, to: toCreateTask }),
  rerunTask: kind(RerunBody, { maxItems, whenEmpty: {}, to: toOverrides }),
  toolResults: kind(ToolResultsBody, {
    maxItems: { results: Limits.toolCalls },
    to: ({ results }) => toToolResults(results)
  }),
  cancel: kind(CancelBody, { whenEmpty: {}, to: ({ reason }) => ({ reason: reason ?? null }) }),
  redeliver: kind(RedeliverBody, { whenEmpty: {}, to: identity }),
  coreEvent: kind(CoreEvent, { maxItems: { tool_calls: Limits.toolCalls }, to: toReport }),
  revokeTokens: kind(RevokeBody, { to: identity }),
  token: kind(TokenBody, { to: identity }),
  createResponse: {
    ...createResponse,
    decode: (value) => Effect.flatMap(createResponse.decode(value), OpenAiRequest.parse)
  },
  redeliverMany: kind(RedeliverManyBody, { maxItems: { ids: redeliveries.ids }, to: identity })
}
