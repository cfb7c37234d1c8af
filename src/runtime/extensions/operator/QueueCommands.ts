/** The group of commands for the queue: what waits, pauses and limits of assistants. */
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import * as Views from "../../../http/operator/QueueSchemas.ts"
import { limit as limitArgument } from "../../cli/Flags.ts"
import { call, reading, type Token } from "../../cli/InternalCall.ts"
import { described, internalToken, print } from "../../cli/Root.ts"

const limitOf = (runs: number | null) => runs === null ? "no limit" : `limit ${runs}`

const list = reading(
  "list",
  "/operator/queue",
  Views.QueueView,
  {},
  (queue, { age, fields, table, text }) =>
    [
      ...(queue.core_unreachable === null ? [] : [
        text(`The core cannot be reached since ${queue.core_unreachable.since}: ${queue.core_unreachable.reason}.`)
      ]),
      fields([
        ["running", `${queue.running} (${limitOf(queue.runs)})`],
        ["waiting", String(queue.waiting)],
        ["oldest", queue.oldest_waiting_since && age(queue.oldest_waiting_since)],
        ["core busy since", queue.core_busy_since && age(queue.core_busy_since)]
      ]),
      table(
        ["ASSISTANT", "NAME", "RUNNING", "LIMIT", "WAITING", "OLDEST", "STATE"],
        queue.assistants.map((assistant) => [
          String(assistant.assistant_id),
          assistant.name ?? "",
          String(assistant.running),
          String(assistant.runs ?? queue.runs_per_assistant ?? "-"),
          String(assistant.waiting),
          age(assistant.oldest_waiting_since),
          assistant.paused ? "paused" : ""
        ]),
        "No assistant has runs, a limit or a pause."
      )
    ].join("\n\n")
)

const assistant = Argument.Int("assistant").pipe(Argument.withDescription("Assistant id"))

/** A limit of all assistants holds for one without its own. */
const change = Effect.fnUntraced(function*(token: Token, id: number, body: object) {
  const changed = yield* call(token, Views.QueuedAssistantView, "PUT", `/operator/queue/assistants/${id}`, body)
  const ofAll = changed.runs === null
    ? (yield* call(token, Views.QueueView, "GET", "/operator/queue")).runs_per_assistant
    : null
  yield* print(changed, ({ assistant_id: id, paused, running, runs, waiting }) => {
    const limit = limitOf(runs ?? ofAll) + (ofAll === null ? "" : " of CORE_RUNS_PER_ASSISTANT")
    return `Assistant ${id}: ${paused ? "paused, " : ""}${limit}, ${running} running, ${waiting} waiting.`
  })
})

const pause = (name: "pause" | "resume") =>
  Command.make(
    name,
    { assistant, internalToken },
    ({ assistant, internalToken }) => change(internalToken, assistant, { paused: name === "pause" })
  )

const runs = limitArgument("runs", "Most runs that the core is given at a time")

const limit = Command.make(
  "limit",
  { assistant, runs, internalToken },
  ({ assistant, internalToken, runs }) => change(internalToken, assistant, { runs })
)

export const queue = Command.make("queue").pipe(
  Command.withSubcommands([
    list.pipe(described("Show how many runs the core has and how many wait, by assistant", "queue list")),
    pause("pause").pipe(described("Hold the new runs of an assistant; resumed ones go on", "queue pause 7")),
    pause("resume").pipe(described("Let the runs of a paused assistant go on", "queue resume 7")),
    limit.pipe(described("Limit the runs of an assistant that the core is given at a time", "queue limit 7 4"))
  ]),
  described("Show the queue, limit and pause assistants (for operators)", "queue list")
)
