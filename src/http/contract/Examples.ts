/** Values of the examples that the documentation shows. */

export const uuid = "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913"
export const deliveryId = `${uuid}-2`
export const createdAt = "2026-11-21T08:30:00.123456Z"
export const completedAt = "2026-11-21T08:30:04.654321Z"

export const turn = {
  output: [{ type: "text", text: "The report finds that sales rose by a tenth." }],
  messages: [{ role: "assistant", content: "The report finds that sales rose by a tenth." }],
  metadata: { model: "demo-1", finish_reason: "stop", usage: { input_tokens: 12, output_tokens: 11, total_tokens: 23 } }
}

export const summary = { uuid, status: "completed", error: null, created_at: createdAt, completed_at: completedAt }

/** A webhook's body: the task as `GET /api/tasks/{uuid}` returns it. */
export const webhookExample = { ...summary, turn }
