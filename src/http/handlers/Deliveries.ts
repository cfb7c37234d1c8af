/** The delivery log of a task, and redeliveries. */
import { Effect, Redacted } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { format, formatOrNull } from "../../domain/Timestamp.ts"
import { type Delivery, deliveryId, hintOf } from "../../domain/Webhook.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { Webhooks } from "../../services/webhooks/Webhooks.ts"
import { Conflict, NotFound, TooManyRequests } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import * as Bodies from "./body/Bodies.ts"
import { BodyReader } from "./body/BodyReader.ts"
import { as, refusing, taskErrors } from "./ErrorResponses.ts"

const refused = refusing({
  ...taskErrors,
  DeliveryNotFound: as(NotFound),
  DeliveryNeedsSecret: as(Conflict),
  DeliveryExhausted: as(Conflict),
  TooManyRedeliveries: as(TooManyRequests)
})

export const view = (delivery: Delivery) => ({
  id: deliveryId(delivery),
  status: delivery.status,
  state: delivery.state,
  created_at: format(delivery.createdAt),
  next_attempt_at: formatOrNull(delivery.nextAttemptAt),
  attempts: delivery.attempts.map(({ duration, error, number, responseStatus, startedAt }) => ({
    number,
    started_at: format(startedAt),
    duration_ms: duration,
    response_status: responseStatus,
    error,
    hint: hintOf(responseStatus) ?? null
  }))
})

export const make = Effect.gen(function*() {
  const tasks = yield* Tasks
  const webhooks = yield* Webhooks
  const { read } = yield* BodyReader

  const list = Effect.fnUntraced(function*(uuid: string) {
    const { principal } = yield* CurrentCaller
    return { data: (yield* webhooks.ofTask(principal, uuid)).map(view) }
  }, refused)

  const redeliver = Effect.fnUntraced(
    function*(
      { id, uuid }: { readonly id: string; readonly uuid: string },
      request: HttpServerRequest.HttpServerRequest
    ) {
      const { principal } = yield* CurrentCaller
      // 403 and 404 have precedence over 422.
      yield* tasks.getHead(principal, uuid)
      const { body } = yield* read(Bodies.redeliver, request)
      const secret = body.callback_secret ? Redacted.make(body.callback_secret) : undefined
      const delivery = yield* webhooks.redeliver(principal, uuid, id, secret)
      return HttpServerResponse.jsonUnsafe(view(delivery), { status: 202 })
    },
    refused
  )

  return { list, redeliver }
})
