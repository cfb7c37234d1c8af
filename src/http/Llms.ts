/** `GET /llms.txt`: the reference as one text, for whoever lets a model write the integration. It needs no token. */
import { Context, Effect } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"

/** Reads the page of the reference, in Markdown. Empty where it is not installed. */
export const ReferenceText = Context.Reference<() => string>("async-task-service/http/Llms/ReferenceText", {
  defaultValue: () => () => ""
})

const heading = `# Asynchronous Task Service

> Runs AI assistant tasks in the background: create a task over REST, get its id at once, then poll, follow events or receive a signed webhook.

- [OpenAPI document](/openapi.json): every request and response, with examples
- [API reference](/docs): the same as a page

Paths are relative to the base URL of the service. A task is created and read so:

    POST /api/tasks  {"assistant_id": 1, "input": [{"type": "text", "text": "What is 6 * 7?"}]}
    GET /api/tasks/{uuid}?wait=30`

/** The part of the page for users of the interface. Links lead into the repository, which the reader does not have. */
const partOf = (reference: string) =>
  reference.slice(Math.max(0, reference.indexOf("\n## ")))
    .replaceAll(/\[([^\]]+)\]\((?!https?:)[^)]*\)/g, "$1")
    .replaceAll(/<!--.*?-->\n?/gs, "")

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const read = yield* ReferenceText
    const text = yield* Effect.cached(Effect.sync(() => `${heading}\n${partOf(read())}`))
    const contentType = "text/plain; charset=utf-8"
    yield* router.add("GET", "/llms.txt", Effect.map(text, (text) => HttpServerResponse.text(text, { contentType })))
  })
)
