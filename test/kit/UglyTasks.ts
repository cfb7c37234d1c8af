/**
 * What real users and their tools write, and tidy examples lack: long names, wide tables, errors of 200 characters, text from right to left,
 * emoji, schemas with bounds, and thousands of rows.
 */
import { report, type ScriptedCore } from "./ScriptedCore.ts"
import type { Service } from "./Service.ts"

/** The name of a user, longer than any column. */
export const longSub =
  "maximiliane.von-und-zu-langenfeld-hohenstein+support-team@customers.very-long-subdomain.shop.example"

const cell = (column: number, row: number) =>
  column === 0 ? `Region ${row}` : `${(row * 7919 * column) % 9_999_999}.50 €`

/** A table of twelve columns, which no window shows whole. */
const wideTable = [
  `| Region | ${Array.from({ length: 11 }, (_, index) => `2026-${String(index + 1).padStart(2, "0")}`).join(" | ")} |`,
  `| --- |${" ---: |".repeat(11)}`,
  ...Array.from(
    { length: 6 },
    (_, row) => `| ${Array.from({ length: 12 }, (_, column) => cell(column, row + 1)).join(" | ")} |`
  )
].join("\n")

/** Every keyword that the answer form supports, with a bound. */
export const boundedSchema = {
  type: "object",
  required: ["approved", "amount", "reason"],
  properties: {
    approved: { type: "boolean", title: "Refund the customer?", description: "Nobody can take this back." },
    amount: { type: "number", title: "Amount in EUR", minimum: 0.01, maximum: 189.9, multipleOf: 0.01 },
    parcels: { type: "integer", title: "Parcels", exclusiveMinimum: 0, exclusiveMaximum: 10 },
    reason: { type: "string", title: "Reason for the books", minLength: 10, maxLength: 80 },
    order: { type: "string", title: "Order", pattern: "^2026-[0-9]{2}-[A-Z]-[0-9]{4}$" },
    contact: { type: "string", title: "Contact", format: "email" },
    due: { type: "string", title: "Pay until", format: "date" },
    reference: { type: "string", title: "Reference", format: "uuid" },
    tracking: { type: "string", title: "Tracking page", format: "uri" },
    pickup: { type: "string", title: "Pick up at", format: "time" },
    decided: { type: "string", title: "Decided at", format: "date-time" },
    priority: { type: "integer", title: "Priority", enum: [1, 2, 3] },
    currency: { type: "string", title: "Currency", const: "EUR" },
    shipping: {
      enum: ["standard", "express", "Abholung in der Filiale am Hauptbahnhof, Gleis 7 🚉", "استلام من المتجر"]
    },
    tags: { type: "array", title: "Labels", items: { enum: ["lost", "damaged", "late"] }, minItems: 1, maxItems: 2 },
    address: {
      type: "object",
      title: "Where the replacement goes",
      description: "Only if it differs from the order.",
      required: ["city"],
      properties: {
        street: { type: "string", title: "Street", maxLength: 60 },
        city: { type: "string", title: "City", minLength: 2 }
      }
    }
  }
}

/** Scripts that run from right to left, and that have no spaces. */
const scripts = {
  arabic: {
    question: "لخّص شكاوى هذا الأسبوع وقارنها بالأسبوع الماضي",
    answer: `وصلت **42 شكوى** هذا الأسبوع، أي أقل بنسبة 12.4 % من الأسبوع الماضي.

| السبب | هذا الأسبوع | الأسبوع الماضي |
| --- | ---: | ---: |
| تأخر التوصيل | 18 | 25 |
| منتج تالف | 14 | 13 |
| خطأ في الفاتورة | 10 | 10 |

1. الطلب \`2026-11-B-0417\` ضاع عند شركة النقل، راجع [حالة الحادث](https://status.carrier.example/incidents/8812).
2. الطلب 2026-11-B-0418 أُعيد إرساله يوم 2026-11-23 الساعة 10:31.

> التوقع يفترض أن هذه الدفعة استثناء.`
  },
  chinese: {
    question: "请总结本周的客户投诉，并与上周进行比较，重点说明物流延误的原因以及我们应当采取的措施",
    answer:
      `本周共收到 **42 起投诉**，比上周减少 12.4%。主要原因是新的承运商在华东地区的配送时间缩短了一天，但是批次 2026-11-B 在运输途中丢失，其中十四位客户仍在等待退款。

| 原因 | 本周 | 上周 |
| --- | ---: | ---: |
| 物流延误 | 18 | 25 |
| 商品损坏 | 14 | 13 |
| 发票错误 | 10 | 10 |

1. 订单 \`2026-11-B-0417\` 已由承运商确认丢失，详见[事故状态](https://status.carrier.example/incidents/8812)。
2. 订单 2026-11-B-0418 已于 2026-11-23 10:31 重新发出。

{"总计": 42}`
  }
}

const longWord = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft".repeat(3)

const requests = {
  interrupted: "Refund the order 2026-11-B-0417 if the carrier agrees, and write to the customer in her language: "
    + "أرجو إعادة المبلغ في أقرب وقت ممكن 🙏 — she has written four times since Monday",
  wide: `Compare the regions by month.\n\n${longWord}`,
  failed: "🎧 Transcribe the recording of the call with the customer, and summarize it in three sentences"
}

const error =
  "The tool \"inventory_lookup\" answered 502 for the order 2026-11-B-0417 of the customer 7f3c1b9a-2d41-4d1e-9a55-"
  + "0c4d1f6a7b21 after 30,412 ms: upstream connect error or disconnect/reset before headers, reset reason: 1234"

const said = `The carrier has confirmed the loss. ${
  "Before I refund the customer I need your decision, because the amount is above what I may pay alone. ".repeat(3)
}

${wideTable}`

const turnOf = (question: string, text: string) => ({
  output: [{ type: "text", text }],
  messages: [{ role: "user", content: question }, { role: "assistant", content: text }],
  metadata: { model: "a-model-with-a-rather-long-name-2026-11-01-preview", usage: { total_tokens: 1_234_567 } }
})

export interface UglyTasks {
  readonly interrupted: string
  readonly wide: string
  readonly failed: string
  readonly arabic: string
  readonly chinese: string
}

/** Creates them for the user of a token. */
export const createUgly = async (service: Service, core: ScriptedCore, token: string): Promise<UglyTasks> => {
  const start = async (text: string, more: object = {}) => {
    const { body } = await service.create(token, text, more)
    const uuid = String(body.uuid)
    const run = await core.run(uuid)
    await report(run, { type: "processing" })
    return { uuid, run }
  }
  const wide = await start(requests.wide, { metadata: { ["a-key-as-long-as-a-key-may-be-".repeat(2)]: longWord } })
  await report(wide.run, { type: "completed", turn: turnOf(requests.wide, said) })
  const failed = await start(requests.failed)
  await report(failed.run, { type: "failed", code: "internal", message: error })
  const [arabic, chinese] = [await start(scripts.arabic.question), await start(scripts.chinese.question)]
  for (const [{ run }, { answer, question }] of [[arabic, scripts.arabic], [chinese, scripts.chinese]] as const) {
    await report(run, { type: "completed", turn: turnOf(question, answer) })
  }
  const interrupted = await start(requests.interrupted, {
    metadata: { project: "Rückerstattungen 2026/27", ticket: "HELP-48213", "فريق": "خدمة العملاء" },
    client_tools: [{ type: "function", name: "approve_refund", output_schema: boundedSchema }]
  })
  await report(interrupted.run, {
    type: "interrupted",
    turn: turnOf(requests.interrupted, said),
    tool_calls: [{
      id: "call_1",
      name: "approve_refund",
      arguments: { order: "2026-11-B-0417", amount: 189.9, customer: "Ngọc Ánh Nguyễn-Þórsdóttir", note: longWord }
    }]
  })
  return {
    interrupted: interrupted.uuid,
    wide: wide.uuid,
    failed: failed.uuid,
    arabic: arabic.uuid,
    chinese: chinese.uuid
  }
}

/** The causes of failures, each with parts that differ from one failure to the next. */
const causes: ReadonlyArray<string> = [
  "Tool call call_%2$s timed out after %1$s ms",
  "Model \"gpt-%1$s\" is overloaded, retry after %3$s s",
  "User '%4$s' may not read the file 00%1$s/report-%3$s.pdf",
  "Order %2$s was not found in the shop with the number %3$s",
  "connect ECONNREFUSED 10.0.%3$s.17:%1$s",
  "The response of https://api.carrier.example/v2/parcels/%1$s was not JSON (unexpected token at %3$s)",
  "Assistant %3$s has no configuration `%2$s`",
  "duplicate key value violates unique constraint \"orders_%3$s_key\": Key (id)=(%1$s) already exists",
  "Request 0x%5$s was refused by the content filter (score 0.%1$s)",
  "The embedding of the chunk %3$s of %1$s has 1%3$s dimensions",
  "انتهت مهلة الاتصال بالخادم %1$s بعد %3$s ثانية",
  "💥 worker %5$s-%3$s crashed while it processed the batch %2$s, which holds 1%1$s documents; see the runbook"
]

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`

export interface Filling {
  /** All of them, of which the failures are a part. */
  readonly tasks: number
  readonly failures: number
  /** The user who has a tenth of them. */
  readonly sub: string
}

/**
 * Statements that fill a database with ended tasks of many users in the last day, and with some that run for hours without progress. The
 * causes of failures take turns.
 */
export const fillStatements = ({ failures, sub, tasks }: Filling): ReadonlyArray<string> => [
  `CREATE TEMPORARY TABLE filled AS
  SELECT n, n <= ${failures} AS is_failed, CASE n % 10 WHEN 0 THEN ${quoted(sub)}
      WHEN 1 THEN ${quoted(longSub)} ELSE 'user-' || n % 997 || '@shop.example' END AS sub,
    md5('task' || n) AS hash, now() - n * interval '86000 seconds' / ${tasks} AS at
  FROM generate_series(1, ${tasks}) AS n`,
  `ALTER TABLE filled ADD COLUMN uuid uuid`,
  `UPDATE filled SET uuid = (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8' || substr(hash, 4, 15))::uuid`,
  `INSERT INTO tasks (uuid, sub, run_id, status, error, revision, completed_at, max_execution_time, created_at, deadline_at, token_id, assistant_id)
  SELECT uuid, sub, gen_random_uuid(), CASE WHEN is_failed THEN 'failed' WHEN n % 7 = 0 THEN 'canceled' ELSE 'completed' END,
    CASE WHEN is_failed THEN format((ARRAY[${causes.map(quoted).join(", ")}])[1 + n % ${causes.length}],
      10000 + n * 7, hash::uuid, n % 89 + 10, sub, substr(hash, 1, 12)) END,
    2, at + interval '95 seconds', 86400, at, at + interval '1 day', 'token', 1 + n % 5
  FROM filled`,
  `INSERT INTO task_requests (task_uuid, request, user_token)
  SELECT uuid, jsonb_build_object('assistant_id', 1, 'input', jsonb_build_array(jsonb_build_object('type', 'text', 'text',
    CASE n % 4 WHEN 0 THEN 'Refund the order 2026-11-B-' || n || ' 🙏 if the carrier agrees' WHEN 1 THEN 'تلخيص المحادثة رقم ' || n
      WHEN 2 THEN repeat('Zusammenfassungsauftragsnummer', 9) ELSE 'Summarize the ticket HELP-' || n || E'\\n\\nand answer "politely"' END)),
    'turns', jsonb_build_array(), 'client_tools', jsonb_build_array())::text, ''
  FROM filled WHERE sub = ${quoted(sub)} OR is_failed`,
  // Runs whose core has reported nothing for hours.
  `INSERT INTO tasks (uuid, sub, run_id, status, revision, max_execution_time, created_at, deadline_at, token_id, assistant_id)
  SELECT (lpad(to_hex((extract(epoch FROM started) * 1000)::bigint), 12, '0') || '7' || substr(md5('stuck' || n), 1, 3) || '8' || substr(md5('stuck' || n), 4, 15))::uuid,
    CASE WHEN n % 2 = 0 THEN ${
    quoted(longSub)
  } ELSE 'user-' || n || '@shop.example' END, gen_random_uuid(), 'processing', 1, 86400, started,
    started + interval '1 day', 'token', 1 + n % 5
  FROM generate_series(1, 30) AS n, LATERAL (SELECT now() - n * interval '17 minutes' AS started) AS clock`,
  `INSERT INTO task_events (task_uuid, revision, type, status, occurred_at)
  SELECT uuid, 1, 'Accepted', 'processing', created_at + interval '2 seconds' FROM tasks WHERE status = 'processing' AND token_id = 'token'`,
  `INSERT INTO task_requests (task_uuid, request, user_token)
  SELECT uuid, '{"assistant_id":1,"input":[],"turns":[],"client_tools":[]}', '' FROM tasks WHERE status = 'processing' AND token_id = 'token'`,
  `DROP TABLE filled`
]
