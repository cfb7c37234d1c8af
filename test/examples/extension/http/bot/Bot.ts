/**
 * A chat bot: `POST /bot/messages` `{chat, text}` of a chat platform makes a task, and the response has its answer. Users of a platform have no
 * JWT: each chat is a user, for whom fresh tokens are obtained.
 */
import { ByteSize, Context, Duration, Effect, type Redacted, Schema } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { encode, toValue } from "../../../../../src/domain/json/OpaqueJson.ts"
import { isTerminal } from "../../../../../src/domain/Task.ts"
import { outputText, type Turn } from "../../../../../src/domain/Turn.ts"
import { bearerOf, isOneOf } from "../../../../../src/http/handlers/Authorization.ts"
import * as Bodies from "../../../../../src/http/handlers/body/Bodies.ts"
import { decodeBytes } from "../../../../../src/http/handlers/body/JsonBody.ts"
import { Tasks } from "../../../../../src/services/tasks/Tasks.ts"
import { TaskWatch } from "../../../../../src/services/tasks/TaskWatch.ts"
import { UserTokens } from "../../../../../src/services/tasks/UserTokens.ts"

export class BotSettings extends Context.Service<BotSettings, {
  /** What the platform sends as its bearer token. */
  readonly token: Redacted.Redacted
}>()("async-task-service/test/examples/extension/http/bot/Bot/BotSettings") {}

const Message = Schema.Struct({
  chat: Schema.String.check(Schema.isPattern(/^[\w-]{1,64}$/)),
  text: Schema.NonEmptyString
})

/** How long a platform waits for a response. */
const patience = Duration.seconds(25)

const answer = (status: number, text: string) => HttpServerResponse.jsonUnsafe({ text }, { status })

const makeReply = Effect.gen(function*() {
  const tasks = yield* Tasks
  const users = yield* UserTokens
  const watch = yield* TaskWatch

  return Effect.fnUntraced(function*({ chat, text }: typeof Message.Type) {
    const caller = yield* users.callerFor(`bot:${chat}`, { chat })
    const body = { assistant_id: 1, input: [{ type: "text", text }] }
    const task = yield* decodeBytes(Bodies.createTask, encode(JSON.stringify(body)))
    const { uuid } = yield* tasks.create(caller, task)
    const head = yield* tasks.getHead(caller.principal, uuid)
    yield* watch.until(head, ({ status }) => isTerminal(status), patience)
    const { error, status, turn } = yield* tasks.get(caller.principal, uuid)
    if (!isTerminal(status)) return answer(200, "I am still thinking.")
    return answer(200, turn === null ? error ?? "" : outputText({ turn: toValue<Turn>(turn) }))
  })
})

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const { token } = yield* BotSettings
    const reply = yield* makeReply
    yield* router.add(
      "POST",
      "/bot/messages",
      Effect.fnUntraced(
        function*(request) {
          if (!isOneOf([token], bearerOf(request))) return answer(401, "Who are you?")
          const message = yield* HttpServerRequest.schemaBodyJson(Message)
          return yield* reply(message)
        },
        Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.kibibytes(64)),
        Effect.catchTags({
          TooManyActiveTasks: () => Effect.succeed(answer(200, "One question after the other, please.")),
          SchemaError: () => Effect.succeed(answer(422, "Expected a chat and a text"))
        }),
        Effect.catch(() => Effect.succeed(answer(503, "Please ask again later.")))
      )
    )
  })
)
