/** Tasks as a user of a shop's assistant has them, in every status, for screenshots and for the tests of every screen. */
import { report, type ScriptedCore, type StartedRun } from "../ScriptedCore.ts"
import type { Service } from "../Service.ts"

const answer = `Revenue grew **12.4 %** against the third quarter, carried by the new subscription plans.

| Plan | Q3 | Q4 | Change |
| --- | ---: | ---: | ---: |
| Starter | 41,200 € | 43,900 € | +6.6 % |
| Team | 88,750 € | 104,300 € | +17.5 % |
| Enterprise | 132,000 € | 146,100 € | +10.7 % |

Two things stand out:

1. **Churn fell to 1.9 %**, the lowest value since 2024. Most of the customers who stayed had used the new onboarding.
2. Refunds doubled in November. All of them belong to order batch \`2026-11-B\`, which [the carrier lost](https://status.carrier.example/incidents/8812).

> The forecast assumes that the batch stays an exception.

I put the figures by country into the attached workbook.`

const calls = [
  {
    id: "call_1",
    name: "approve_refund",
    arguments: {
      order: "2026-11-B-0417",
      customer: "Marta Lindqvist",
      amount: 189.9,
      currency: "EUR",
      reason: "Lost by the carrier"
    }
  },
  {
    id: "call_2",
    name: "choose_shipping",
    arguments: { address: { city: "Uppsala", country: "SE" }, options: ["standard", "express", "pick-up point"] }
  }
]

const turnOf = (question: string, text: string, file?: object) => ({
  output: [{ type: "text", text }, ...(file === undefined ? [] : [file])],
  messages: [
    { role: "system", content: "You help the staff of a shop. Be brief." },
    { role: "user", content: question },
    {
      role: "assistant",
      content: "",
      tool_calls: [{ id: "call_0", name: "query_orders", arguments: { quarter: "2026-Q4", group_by: "plan" } }]
    },
    { role: "tool", tool_call_id: "call_0", content: "{\"rows\": 3, \"sum\": 294300}" },
    { role: "assistant", content: text }
  ],
  metadata: {
    model: "claude-sonnet",
    finish_reason: "stop",
    usage: { input_tokens: 2140, output_tokens: 386, total_tokens: 2526 }
  }
})

export interface ExampleTasks {
  readonly completed: string
  readonly failed: string
  readonly canceled: string
  readonly processing: string
  readonly interrupted: string
}

/** Creates them for the user of a token. `callbackUrl` receives the webhooks of two of them. */
export const createExamples = async (
  service: Service,
  core: ScriptedCore,
  token: string,
  callbackUrl: string
): Promise<ExampleTasks> => {
  const create = async (text: string, more: object = {}) => {
    const { body } = await service.create(token, text, more)
    return body.uuid as string
  }
  const start = async (text: string, more: object = {}): Promise<readonly [string, StartedRun]> => {
    const uuid = await create(text, more)
    const run = await core.run(uuid)
    await report(run, { type: "processing" })
    return [uuid, run]
  }
  const webhook = { callback_url: callbackUrl, callback_secret: "a secret of the shop" }

  const [canceled, toCancel] = await start("Send the newsletter to all customers")
  await report(toCancel, {
    type: "interrupted",
    tool_calls: [{ id: "call_9", name: "send_newsletter", arguments: { list: "all" } }]
  })
  await service.call("POST", `/api/tasks/${canceled}/cancel`, token, {
    reason: "Wrong list: send it to the test group first"
  })

  const [failed, toFail] = await start("Translate the product catalogue")
  await report(toFail, { type: "failed", code: "payment_required" })

  const question = "How did the fourth quarter go? Compare the plans."
  const [completed, toComplete] = await start(question, webhook)
  await report(toComplete, { type: "progress", turn: turnOf(question, "Reading the orders …") })
  const path = "reports/quarter-4.xlsx"
  const file = {
    type: "file",
    file: { id: "f1", name: "quarter-4.xlsx", mime_type: "application/vnd.ms-excel", provider_data: { path } }
  }
  await report(toComplete, { type: "completed", turn: turnOf(question, answer, file) })

  const [interrupted, toInterrupt] = await start("Handle the complaints of this morning", webhook)
  await report(toInterrupt, {
    type: "progress",
    turn: turnOf("Handle the complaints of this morning", "Two customers wait for an answer.")
  })
  await report(toInterrupt, {
    type: "interrupted",
    tool_calls: calls,
    turn: turnOf("Handle the complaints of this morning", "Two customers wait for an answer.")
  })

  const [processing, toProcess] = await start("Summarize the 214 reviews of last week")
  await report(toProcess, {
    type: "progress",
    turn: turnOf("Summarize the 214 reviews", "Read 130 of 214 reviews. Most praise the **new packaging**.")
  })
  return { completed, failed, canceled, processing, interrupted }
}
