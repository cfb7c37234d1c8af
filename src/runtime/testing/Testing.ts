/** Exports of `async-task-service/testing`: the whole service in a test, with and without Effect. */
export {
  createTestService,
  type PlainCore,
  type PlainTestService,
  type PlainTestServiceOptions
} from "./createTestService.ts"
export { type Behaviour, type StartedRun, type StoppedRun, TestCore, turnOf } from "./TestCore.ts"
export { internalToken, TestService, type TestServiceOptions } from "./TestService.ts"
export { type ReceivedWebhook, TestWebhooks, type WebhookAnswer } from "./TestWebhooks.ts"
