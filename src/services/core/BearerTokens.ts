/** The bearer tokens for another system of the operator, several while they are rotated. */
import { Effect, Redacted } from "effect"

type Headers = Readonly<Record<string, string>>

/**
 * Returns a function that sends a request with the first token, and with the next one after each 401 or 403. A token that was accepted
 * stays the first until it is refused.
 */
export const make = (tokens: ReadonlyArray<Redacted.Redacted>) => {
  const headers: ReadonlyArray<Headers> = tokens.map((token) => ({ authorization: `Bearer ${Redacted.value(token)}` }))
  let current = 0
  return <R extends { readonly status: number }, E>(
    send: (headers: Headers) => Effect.Effect<R, E>
  ): Effect.Effect<R, E> => {
    const attempt = (index: number, left: number): Effect.Effect<R, E> =>
      Effect.flatMap(send(headers[index] ?? {}), (response) => {
        const isRefused = response.status === 401 || response.status === 403
        if (isRefused && left > 1) return attempt((index + 1) % headers.length, left - 1)
        if (!isRefused) current = index
        return Effect.succeed(response)
      })
    return Effect.suspend(() => attempt(current, headers.length))
  }
}
