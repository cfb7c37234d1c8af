/** Files that a request contains in base64. They are uploaded before the task is created. */
import { Array as Arr, Cause, Effect, type Pull, Result } from "effect"
import { Base64 } from "effect/encoding"

/** Maximum files of one request, because each is an upload. */
export const maxFiles = 20

/** Characters that are decoded at a time, so that no large file blocks the event loop. */
const step = 256 * 1024

/** The bytes as an upload pulls them. */
export const bytesOf = <E>(base64: string, onInvalid: () => E) => {
  const characters = base64.replaceAll(/\s/g, "").replace(/={1,2}$/, "")
  let at = 0
  return Effect.suspend((): Pull.Pull<Arr.NonEmptyReadonlyArray<Uint8Array>, E> => {
    if (at >= characters.length) return Cause.done()
    const piece = characters.slice(at, at + step)
    at += step
    const decoded = Base64.decode(piece.padEnd(Math.ceil(piece.length / 4) * 4, "="))
    return Result.isSuccess(decoded) ? Effect.succeed(Arr.of(decoded.success)) : Effect.fail(onInvalid())
  })
}
