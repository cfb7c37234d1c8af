/** One black-box look at a deployment: a request, its answer, and what was expected of it. */
import { Effect, Predicate, Schedule, Schema } from "effect"
import { HttpClient, HttpClientRequest, type HttpMethod } from "effect/http"

export class Mismatch extends Schema.TaggedError<Mismatch>()("Mismatch", { message: Schema.String }) {}

export interface Deployment {
  readonly url: string
  readonly token: string
  /** Of another user; cases that need one are skipped without it. */
  readonly otherToken: string | undefined
  /** An assistant that answers. */
  readonly assistant: number
  /** An assistant that calls the client tools it is given; cases that need one are skipped without it. */
  readonly toolsAssistant: number | undefined
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  // oxlint-disable-next-line typescript/no-explicit-any -- answers are looked into, whatever they are
  readonly body: any
}

interface Sending {
  readonly body?: unknown
  /** Sent as it is. */
  readonly text?: string
  readonly form?: FormData
  /** Null for none. */
  readonly token?: string | null
  readonly headers?: Readonly<Record<string, string>>
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export const expect = (holds: boolean, message: string) => holds ? Effect.void : Effect.fail(new Mismatch({ message }))

const shown = (value: unknown) => JSON.stringify(value)?.slice(0, 200) ?? String(value)

export const expectEqual = (what: string, found: unknown, wanted: unknown) =>
  expect(JSON.stringify(found) === JSON.stringify(wanted), `${what} is ${shown(found)}, expected ${shown(wanted)}`)

export const expectMatch = (what: string, found: unknown, wanted: RegExp) =>
  expect(Predicate.isString(found) && wanted.test(found), `${what} is ${shown(found)}, expected ${wanted}`)

export const makeProbe = Effect.fnUntraced(function*(deployment: Deployment) {
  const http = yield* HttpClient.HttpClient

  const send = Effect.fnUntraced(
    function*(method: HttpMethod.HttpMethod, path: string, { body, form, headers = {}, text, token }: Sending = {}) {
      const credential = token === undefined ? deployment.token : token
      const plain = HttpClientRequest.make(method)(deployment.url + path).pipe(
        HttpClientRequest.setHeaders(
          credential === null ? headers : { authorization: `Bearer ${credential}`, ...headers }
        )
      )
      const request = form !== undefined
        ? HttpClientRequest.bodyFormData(plain, form)
        : text !== undefined
        ? HttpClientRequest.bodyText(plain, text, "application/json")
        : body !== undefined
        ? HttpClientRequest.bodyJsonUnsafe(plain, body)
        : plain
      const response = yield* http.execute(request)
      const answer: Answer = { status: response.status, headers: response.headers, body: parse(yield* response.text) }
      return answer
    },
    Effect.mapError((error) => new Mismatch({ message: `No answer: ${error.message}` }))
  )

  /** The answer, when it has the status that is expected of it. */
  const ask = (status: number, method: HttpMethod.HttpMethod, path: string, sending?: Sending) =>
    Effect.tap(send(method, path, sending), (answer) =>
      expect(
        answer.status === status,
        `${method} ${path} answered ${answer.status} ${shown(answer.body)}, expected ${status}`
      ))

  const create = (more: object = {}, text = "What is 6 * 7?") =>
    Effect.map(
      ask(201, "POST", "/api/tasks", {
        body: { assistant_id: deployment.assistant, input: [{ type: "text", text }], ...more }
      }),
      ({ body }) => body
    )

  /** The task once `until` holds of its status; polls as a client would. */
  const settled = (uuid: string, until: ReadonlyArray<string>) =>
    ask(200, "GET", `/api/tasks/${uuid}`).pipe(
      Effect.map(({ body }) => body),
      Effect.filterOrFail(({ status }) => until.includes(status), ({ status }) =>
        new Mismatch({ message: `still ${status}` })),
      Effect.retry(Schedule.spaced("250 millis")),
      Effect.timeoutOrElse({
        duration: "60 seconds",
        orElse: () =>
          Effect.fail(new Mismatch({ message: `Task ${uuid} is not ${until.join(" or ")} after 60 s` }))
      })
    )

  return { ...deployment, ask, send, create, settled }
})

export type Probe = Effect.Success<ReturnType<typeof makeProbe>>
