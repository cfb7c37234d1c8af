/** Uploads a file, creates a task about it, and downloads it again. */
import { outputText, TaskServiceClient } from "../../src/http/client/Client.ts" // async-task-service/client

const client = new TaskServiceClient({
  baseUrl: process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000",
  token: process.env["TASK_SERVICE_TOKEN"] ?? ""
})

const notes = new File(["The meeting is on Tuesday.\nBring the figures.\n"], "notes.txt", { type: "text/plain" })
const item = await client.files.upload(notes, {
  onProgress: ({ loaded, total }) => console.log(`sent ${loaded} of ${total ?? "?"} bytes`)
})

// The result of an upload is an item of `input` as it is.
const task = await client.tasks.run({
  assistant_id: 1,
  input: [{ type: "text", text: "When is the meeting?" }, item]
})
console.log(task.status, outputText(task))

// The download link needs no token.
const response = await fetch(await client.files.url(item))
console.log("downloaded:", (await response.text()).split("\n")[0])
