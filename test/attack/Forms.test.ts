/** Forms that are made to cost much: many parts, long headers, text that resembles the boundary, and no end. */
import { assert, describe, it } from "vitest"
import { RawClient, requestHead } from "../kit/RawClient.ts"
import { ScriptedBackend } from "../kit/ScriptedBackend.ts"
import { mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { assertBounded, startVictim } from "./kit/Victim.ts"

const mebibyte = 1024 * 1024
const token = await mint("bomber")
const boundary = "x".repeat(70)
const part = (name: string, headers = "") =>
  `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${headers}\r\n\r\n`

/** What is sent once, what is repeated up to 64 MiB, and the status of the answer. */
const bombs = {
  "a million parts": ["", `${part("a")}b\r\n`, 422],
  "files of other fields": [part("other", "; filename=\"a.txt\""), "y".repeat(65_536), 422],
  "no boundary": ["", "y".repeat(65_536), 422],
  "text that resembles the boundary in a file": [
    part("file", "; filename=\"a.txt\""),
    `\r\n--${boundary.slice(1)}y`,
    422
  ],
  "line ends only": [part("file", "; filename=\"a.txt\""), "\r\n\r\n\r\n-", 422],
  "a header without end": [`--${boundary}\r\nX-Long: `, "z".repeat(65_536), 422],
  "headers without end": [`--${boundary}\r\n`, "X-Many: z\r\n", 422],
  "a file name of parameters": [`--${boundary}\r\nContent-Disposition: form-data; `, "a=\"\\\"; ", 422],
  "percent signs in a file name": [`--${boundary}\r\nContent-Disposition: form-data; filename*=UTF-8''`, "%", 422]
} as const

describe("a form", async () => {
  const backend = await use(new ScriptedBackend().listen())
  const victim = await use(startVictim({ ASSISTANT_BACKEND_URL: backend.url }))

  for (const [title, [begin, repeated, status]] of Object.entries(bombs)) {
    it(`of ${title} costs bounded memory and time`, async () => {
      const chunk = Buffer.from(repeated.repeat(Math.ceil(65_536 / repeated.length)))
      const total = begin.length + chunk.length * Math.ceil((64 * mebibyte) / chunk.length)
      const observed = await victim.observe(async () => {
        const client = await RawClient.open(victim.service.url)
        const head = requestHead(
          "POST /api/files",
          `Authorization: Bearer ${token}`,
          `Content-Length: ${total}`,
          `Content-Type: multipart/form-data; boundary=${boundary}`
        )
        client.send(head + begin)
        const answer = client.answer()
        for (let sent = begin.length; sent < total && client.answers().length === 0; sent += chunk.length) {
          if (!client.socket.write(chunk)) {
            await Promise.race([answer, new Promise((resolve) => client.socket.once("drain", resolve))])
          }
        }
        assert.strictEqual((await answer).status, status)
        client.close()
      })
      assertBounded(observed, 100)
    })
  }
})
