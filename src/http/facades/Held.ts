/** Answers that last until a task has ended or is interrupted. */
import { Effect, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import { type Client, Turns } from "../../services/tasks/Turns.ts"
import { endWhen } from "../../services/timing/StreamEnds.ts"
import { CurrentToken } from "../handlers/CurrentToken.ts"
import * as EventStream from "../handlers/EventStream.ts"

/** Bytes that are sent together: nothing else comes between them. */
export type Frame<E = never> = Stream.Stream<Uint8Array, E>

const keepAlive = (text: string): Stream.Stream<Frame> => {
  const frame = Stream.make(OpaqueJson.encode(text))
  return EventStream.keepAlive(frame)
}

/** The bytes that are sent while nothing else is, so that no timeout of a proxy or client ends the request. */
interface Kind {
  readonly idle: string
  readonly options: { readonly contentType: string; readonly headers?: Readonly<Record<string, string>> }
}

export const events: Kind = { idle: EventStream.comment, options: EventStream.options }

/** Blanks before the JSON. */
export const json: Kind = { idle: " ", options: { contentType: "application/json" } }

const lineEnds = [0x0a, 0x0d]

/** JSON whose white space has no line ends, which would end a line of an event. Inside of texts there are none. */
export const onOneLine = (json: Uint8Array): Uint8Array => {
  // Node searches a Buffer many times faster than an array of bytes.
  const searched = Buffer.from(json.buffer, json.byteOffset, json.length)
  let line = json
  for (const byte of lineEnds) {
    for (let index = searched.indexOf(byte); index !== -1; index = searched.indexOf(byte, index + 1)) {
      if (line === json) line = new Uint8Array(json)
      line[index] = 0x20
    }
  }
  return line
}

/** A response that sends its head immediately, and must not outlive the token that opened it. */
export const makeOpen = Effect.map(
  Turns,
  (sent) =>
    Effect.fnUntraced(function*<E>(client: Client, frames: Stream.Stream<Frame<E>, E>, { idle, options }: Kind) {
      const { ended } = yield* CurrentToken
      const bytes = frames.pipe(
        Stream.merge(keepAlive(idle), { haltStrategy: "left" }),
        Stream.flatten()
      )
      return HttpServerResponse.stream(sent.send(client, endWhen(bytes, ended)), options)
    })
)
