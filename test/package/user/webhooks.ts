import { verifyWebhook, WebhookVerificationError } from "async-task-service-client/webhooks"

declare const console: { log(...what: ReadonlyArray<unknown>): void }

const problem = await verifyWebhook({ body: "{}", headers: {}, secret: "a secret" }).catch((error: unknown) => error)
console.log(problem instanceof WebhookVerificationError ? problem.problem : problem)
