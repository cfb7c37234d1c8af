/** Sends black-box requests to a deployment and compares the responses with expectations. */
import { Effect, Predicate, Schedule, Schema } from "effect"
import { HttpClient, HttpClientRequest, type HttpMethod } from "effect/http"

export class Mismatch extends Schema.TaggedError<Mismatch>()("Mismatch", { message: Schema.String }) {}

export interface Deployment {
  readonly url: string
  readonly token: string
  /** Token of another user. */
  readonly otherToken: string
  /** Id of an assistant that completes its tasks. */
  readonly assistant: number
  /** Id of an assistant that calls its client tools. */
  readonly toolsAssistant: number
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  // oxlint-disable-next-line typescript/no-explicit-any -- the cases inspect bodies of any shape
  readonly body: any
}

interface RequestOptions {
  /** Sent as JSON. */
  readonly body?: unknown
  /** Sent verbatim, as `application/json`. */
  readonly text?: string
  readonly form?: FormData
  /** The deployment's token by default; null sends none. */
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

const excerpt = (value: unknown) => JSON.stringify(value)?.slice(0, 200) ?? String(value)

export const expectEqual = (name: string, actual: unknown, expected: unknown) =>
  expect(
    JSON.stringify(actual) === JSON.stringify(expected),
    `${name} is ${excerpt(actual)}, expected ${excerpt(expected)}`
  )

export const expectMatch = (name: string, actual: unknown, expected: RegExp) =>
  expect(Predicate.isString(actual) && expected.test(actual), `${name} is ${excerpt(actual)}, expected ${expected}`)

export const makeProbe = Effect.fnUntraced(function*(deployment: Deployment) {
  const http = yield* HttpClient.HttpClient

  const send = Effect.fnUntraced(
    function*(
      method: HttpMethod.HttpMethod,
      path: string,
      { body, form, headers = {}, text, token }: RequestOptions = {}
    ) {
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
    Effect.mapError((error) => new Mismatch({ message: `No response: ${error.message}` }))
  )

  /** Sends a request; fails unless the response has the expected status. */
  const expectStatus = (status: number, method: HttpMethod.HttpMethod, path: string, options?: RequestOptions) =>
    Effect.tap(send(method, path, options), (answer) =>
      expect(
        answer.status === status,
        `${method} ${path} returned ${answer.status} ${excerpt(answer.body)}, expected ${status}`
      ))

  const create = (more: object = {}, text = "What is 6 * 7?") =>
    Effect.map(
      expectStatus(201, "POST", "/api/tasks", {
        body: { assistant_id: deployment.assistant, input: [{ type: "text", text }], ...more }
      }),
      ({ body }) => body
    )

  /** Polls until the task has one of the statuses, for at most 60 s, and returns it. */
  const waitForStatus = (uuid: string, statuses: ReadonlyArray<string>) =>
    expectStatus(200, "GET", `/api/tasks/${uuid}`).pipe(
      Effect.map(({ body }) => body),
      Effect.filterOrFail(
        ({ status }) => statuses.includes(status),
        ({ status }) => new Mismatch({ message: `still ${status}` })
      ),
      Effect.retry(Schedule.spaced("250 millis")),
      Effect.timeoutOrElse({
        duration: "60 seconds",
        orElse: () => Effect.fail(new Mismatch({ message: `Task ${uuid} is not ${statuses.join(" or ")} after 60 s` }))
      })
    )

  return { ...deployment, expectStatus, send, create, waitForStatus }
})

export type Probe = Effect.Success<ReturnType<typeof makeProbe>>
