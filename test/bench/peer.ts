/**
 * The peer of the create benchmark: fastify, @fastify/jwt and postgres.js doing the same insert and the same JWT check.
 */
import jwt from "@fastify/jwt"
import Fastify from "fastify"
import { randomUUID } from "node:crypto"
import postgres from "postgres"

const sql = postgres(String(process.env["DATABASE_URL"]), { max: 10 })
const app = Fastify()
await app.register(jwt, { secret: String(process.env["JWT_SECRET"]) })

const body = {
  type: "object",
  required: ["assistant_id", "input"],
  properties: {
    assistant_id: { type: "integer", minimum: 1 },
    input: {
      type: "array",
      minItems: 1,
      maxItems: 256,
      items: {
        type: "object",
        required: ["type", "text"],
        properties: { type: { const: "text" }, text: { type: "string" } }
      }
    },
    max_execution_time: { type: "integer", minimum: 1, maximum: 86_400 }
  }
} as const

app.post<{ Body: { assistant_id: number; max_execution_time?: number } }>(
  "/api/tasks",
  { schema: { body } },
  async (request, reply) => {
    const { iat, sub } = await request.jwtVerify<{ sub: string; iat: number }>()
    const uuid = randomUUID()
    const seconds = request.body.max_execution_time ?? 86_400
    const now = Date.now()
    const at = (after: number) => new Date(now + after * 1000).toISOString()
    const [row] = await sql`
    SELECT outcome FROM create_tasks(
      p_uuid => ARRAY[${uuid}::uuid], p_sub => ARRAY[${sub}], p_run_id => ARRAY[${randomUUID()}::uuid],
      p_assistant_id => ARRAY[${request.body.assistant_id}::bigint], p_max_execution_time => ARRAY[${seconds}::integer],
      p_created_at => ARRAY[${at(0)}::timestamptz], p_deadline_at => ARRAY[${at(seconds)}::timestamptz],
      p_acceptance_deadline_at => ARRAY[${at(30)}::timestamptz], p_token_id => ARRAY[${"token"}],
      p_token_issued_at => ARRAY[to_timestamp(${iat})], p_request => ARRAY[${JSON.stringify(request.body)}],
      p_user_token => ARRAY[${"sealed"}], p_callback_secret => null, p_metadata => null,
      p_max_active => ARRAY[1000000], p_key => null, p_fingerprint => null, p_key_expires_at => null)`
    if (row?.["outcome"] !== "created") return reply.code(429).send({ message: "Too many active tasks." })
    return reply.code(201).header("location", `/api/tasks/${uuid}`).send({
      uuid,
      status: "pending",
      max_execution_time: seconds
    })
  }
)

await app.listen({ port: Number(process.env["PORT"]), host: "127.0.0.1" })
