/** Streams the file of a multipart request to the assistant backend. */
import { Cause, Channel, Context, Effect, Layer, Pull, Schema, Stream } from "effect"
import type { HttpServerRequest } from "effect/http"
import * as Limits from "../../domain/Limits.ts"
import type { Caller } from "../../domain/Principal.ts"
import {
  AssistantBackend,
  type IncomingFile,
  tooLarge,
  type UploadedFile,
  type UploadError
} from "../../services/files/AssistantBackend.ts"
import { Counts } from "../../services/limits/Counts.ts"
import * as IdleTimeout from "../../services/timing/IdleTimeout.ts"
import { Timeouts } from "../../services/timing/Intervals.ts"
import {
  RequestTimeout,
  type ServiceUnavailable,
  type Unauthorized,
  type UnsupportedMediaType
} from "../contract/Errors.ts"
import { requirePlain } from "./body/BodyReader.ts"
import { unreadable } from "./body/SmallBodies.ts"
import * as UploadForm from "./body/UploadForm.ts"
import { CurrentToken, whileValid } from "./CurrentToken.ts"

const stalled = new RequestTimeout({ message: "The upload stalled: no data arrived in time." })

/** Content that ends only if the token is still valid: without the end the backend does not store the file. */
const endingWith = <A, E, E2>(content: Pull.Pull<A, E>, check: Effect.Effect<void, E2>): Pull.Pull<A, E | E2> =>
  Pull.matchEffect(content, {
    onSuccess: Effect.succeed,
    onFailure: Effect.failCause,
    onDone: () => Effect.andThen(check, Cause.done())
  })

/** The user has the maximum number of uploads in progress. */
export class NoSlotLeft extends Schema.TaggedError<NoSlotLeft>()("NoSlotLeft", { maximum: Schema.Int }) {}

/** Runs an effect of a user while fewer than `maximum` of the user's are in progress, and fails otherwise. */
const limitOfUser = (maximum: number) => {
  const held = new Counts()
  const acquire = (sub: string) =>
    Effect.suspend(() => {
      if (held.of(sub) >= maximum) return Effect.fail(new NoSlotLeft({ maximum }))
      held.add(sub)
      return Effect.void
    })
  return (sub: string) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | NoSlotLeft, R> =>
    Effect.acquireUseRelease(acquire(sub), () => effect, () => Effect.sync(() => held.remove(sub)))
}

type Failure =
  | UploadError
  | RequestTimeout
  | ServiceUnavailable
  | Unauthorized
  | UnsupportedMediaType
  | NoSlotLeft

type StoreFailure = UploadError | ServiceUnavailable | Unauthorized | NoSlotLeft

interface Uploaded extends UploadedFile {
  readonly bytes: number
}

export class Uploads extends Context.Service<Uploads, {
  /** Stores the field `file`. A user has at most `Limits.uploads` uploads in progress on a node. */
  readonly upload: (
    caller: Caller,
    request: HttpServerRequest.HttpServerRequest
  ) => Effect.Effect<Uploaded, Failure>
  /** Stores a file that came in another way. */
  readonly store: <E>(caller: Caller, file: IncomingFile<E>) => Effect.Effect<UploadedFile, StoreFailure | E>
}>()("async-task-service/http/handlers/Uploads") {
  static readonly layer = Layer.effect(
    Uploads,
    Effect.gen(function*() {
      const backend = yield* AssistantBackend
      const slotOf = limitOfUser(Limits.uploads)

      const upload = Effect.fnUntraced(function*({ token }: Caller, request: HttpServerRequest.HttpServerRequest) {
        const { check } = yield* CurrentToken
        yield* backend.requireFiles
        yield* requirePlain(request)
        if (Number(request.headers["content-length"]) > UploadForm.maxFormBytes) return yield* tooLarge
        const idle = yield* IdleTimeout.make((yield* Timeouts).uploadIdle)
        const pull = yield* Channel.toPullScoped(Stream.toChannel(request.stream), yield* Effect.scope)
        const source = Effect.suspend(() => {
          idle.begin()
          return Effect.onExit(pull, () => Effect.sync(idle.end))
        })
        let bytes = 0
        return yield* UploadForm.open(request.headers["content-type"] ?? "", source).pipe(
          Effect.flatMap((file) => {
            const counted = Effect.map(file.content, (chunks) => {
              for (const chunk of chunks) bytes += chunk.length
              return chunks
            })
            return backend.upload(token, { ...file, content: endingWith(counted, check) })
          }),
          Effect.tap(check),
          Effect.raceFirst(Effect.andThen(idle.exceeded, Effect.fail(stalled))),
          whileValid,
          Effect.catchTag("HttpServerError", () => Effect.fail(unreadable)),
          Effect.map((file) => ({ ...file, bytes }))
        )
      }, Effect.scoped)

      const store = Effect.fnUntraced(function*<E>({ token }: Caller, file: IncomingFile<E>) {
        const { check } = yield* CurrentToken
        const name = UploadForm.baseName(file.name)
        return yield* backend.upload(token, { ...file, name, content: endingWith(file.content, check) })
      })

      return Uploads.of({
        upload: (caller, request) => slotOf(caller.principal.sub)(upload(caller, request)),
        store: (caller, file) => slotOf(caller.principal.sub)(store(caller, file))
      })
    })
  )
}
