/**
 * The assistant backend as the built-in core uses it: the built-in backend by function calls, or any other over HTTP by
 * `BackendClient`. The requests and lines are those of AssistantProtocol.ts.
 */
import { type Effect, Schema, type Scope, Stream } from "effect"
import type { Chat, CreateChat, CreateTurn, TurnLine } from "./AssistantProtocol.ts"

/** The user of a run. */
export interface Caller {
  readonly sub: string
  /** The user's own token. */
  readonly token: string
}

/** The backend refused a call. */
export class BackendRefused extends Schema.TaggedError<BackendRefused>()("BackendRefused", {
  /** The status of the HTTP response: 402 when the user has to pay, 404 when something does not exist. */
  status: Schema.Int,
  message: Schema.String
}) {}

/** The backend did not respond, or not by the protocol. */
export class BackendFailed extends Schema.TaggedError<BackendFailed>()("BackendFailed", { cause: Schema.Defect() }) {}

type Call<A, R = never> = Effect.Effect<A, BackendRefused | BackendFailed, R>

/** All text of the turn's output so far, between two lines of progress. It is not part of the protocol over HTTP. */
export interface TextLine {
  readonly type: "text"
  readonly text: string
}

/** A line that is there already, or cannot be decoded. */
export type ArrivedLine = Effect.Effect<TurnLine, BackendFailed>

/** The lines of a turn: an array if all of them are there already. A stream that is read slowly skips to the latest progress. */
export type TurnLines = ReadonlyArray<ArrivedLine> | Stream.Stream<TurnLine | TextLine, BackendFailed>

/** Lines that arrive at their own pace, for a slow reader. The last line is never skipped, because no line follows it. */
export const skipToLatest = <E>(lines: Stream.Stream<TurnLine, E>): Stream.Stream<TurnLine, E> =>
  lines.pipe(
    Stream.takeUntil(({ type }) => type !== "progress"),
    Stream.buffer({ capacity: 1, strategy: "sliding" })
  )

export interface Backend {
  /** Returns the chat's id. */
  readonly createChat: (caller: Caller, request: typeof CreateChat.Type) => Call<typeof Chat.Type["id"]>
  /** The turn ends when the scope closes. */
  readonly createTurn: (
    caller: Caller,
    chatId: typeof Chat.Type["id"],
    request: CreateTurn
  ) => Call<TurnLines, Scope.Scope>
  /** Returns the text of a voice recording. */
  /** Sends all fields of the file. */
  readonly transcribe: (caller: Caller, file: { readonly id: string }) => Call<string>
}
