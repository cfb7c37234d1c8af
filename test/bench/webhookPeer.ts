/** The peer of the webhook benchmark: bare undici sends the same POSTs from memory, without signatures or a store. */
import { Pool } from "@effect/platform-node/Undici"

const { BODY = "", POSTS = "0", TARGET = "" } = process.env
const connections = 32
const pool = new Pool(TARGET, { connections, pipelining: 1 })
let left = Number(POSTS)

const post = async () => {
  while (left-- > 0) {
    const { body } = await pool.request({
      path: "/hook",
      method: "POST",
      headers: { "content-type": "application/json", "x-task-uuid": "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913" },
      body: BODY
    })
    await body.dump()
  }
}
await Promise.all(Array.from({ length: connections }, post))
await pool.close()
