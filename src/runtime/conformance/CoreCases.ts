/** The rules of a processing core. */
import { Effect } from "effect"
import { check, type CoreKit, isFinal, type NotConforming } from "./CoreKit.ts"

interface Case {
  readonly name: string
  readonly needsTools?: boolean
  readonly run: (kit: CoreKit) => Effect.Effect<void, NotConforming>
}

/** A status for the first events, then 200. */
const failing = (times: number, status: number) => {
  let left = times
  return () => left-- > 0 ? status : 200
}

/** The runs that are started together, to fill a core with little room. */
const crowd = 8

const declaredBy = (answer: string): unknown => answer.startsWith("{") ? JSON.parse(answer).silence_seconds : undefined

const repeatsAfter = (status: number): Case => ({
  name: `repeats an event with its event_id after ${status}`,
  run: Effect.fnUntraced(function*({ ended, newRun, start }) {
    const run = yield* newRun()
    run.answer = failing(2, status)
    yield* start(run)
    yield* ended(run)
    const repeated = run.events.filter(({ event_id }) => event_id === run.events[0]?.event_id)
    yield* check(repeated.length > 1, "the event was not repeated, or with another event_id")
  })
})

export const cases: ReadonlyArray<Case> = [
  {
    name: "refuses a wrong token with 401",
    run: Effect.fnUntraced(function*({ newRun, post }) {
      const { status } = yield* post("/runs", (yield* newRun()).body, "wrong")
      yield* check(status === 401, `POST /runs with a wrong token answered ${status}`)
    })
  },
  {
    name: "reports its acceptance first, within 30 s, and one final event last, each with its own event_id",
    run: Effect.fnUntraced(function*({ begin, ended, quiet, reported }) {
      const run = yield* begin()
      yield* reported(run)
      yield* ended(run)
      yield* quiet(run, "events go on after the final one")
      const [first] = run.events
      yield* check(first?.type === "processing" || first?.accepted === true, `the first event is ${first?.type}`)
      yield* check(run.events.filter(isFinal).length === 1, "there is more than one final event")
      yield* check(run.events.slice(0, -1).every((event) => !isFinal(event)), "an event follows the final one")
      yield* check(
        new Set(run.events.map((event) => event.event_id)).size === run.events.length,
        "event_ids are repeated"
      )
    })
  },
  {
    name: "executes a run once, however often it is started",
    run: Effect.fnUntraced(function*({ ended, newRun, quiet, start }) {
      const run = yield* newRun()
      yield* Effect.all([start(run), start(run), start(run)], { concurrency: "unbounded" })
      yield* ended(run)
      yield* quiet(run, "events go on after the final one")
      yield* check(run.events.filter(isFinal).length === 1, "a repeated run_id began another execution")
    })
  },
  {
    name: "takes nothing of a run that it answers with 429, or 503 and Retry-After, and takes the run later",
    run: Effect.fnUntraced(function*({ ended, newRun, offer, start }) {
      const runs = yield* Effect.replicateEffect(newRun(), crowd)
      // The runs cannot end before all are offered.
      for (const run of runs) run.answer = () => 503
      const goOn = Effect.sync(() => runs.forEach((run) => run.answer = () => 200))
      const left = yield* Effect.gen(function*() {
        const answers = yield* Effect.forEach(runs, offer, { concurrency: crowd })
        const refused = runs.filter((_, index) => answers[index]?.pause !== undefined)
        yield* Effect.sleep("1 second")
        const isUntouched = refused.every(({ events }) => events.length === 0)
        yield* check(isUntouched, "a run that the core had no room for has an event")
        return refused
      }).pipe(Effect.ensuring(goOn))
      yield* Effect.forEach(left, start, { concurrency: crowd })
      yield* Effect.forEach(runs, ended, { concurrency: crowd })
    })
  },
  repeatsAfter(503),
  repeatsAfter(429),
  {
    name: "stops a run whose event is answered with 409",
    run: Effect.fnUntraced(function*({ newRun, quiet, reported, start }) {
      const run = yield* newRun()
      run.answer = () => 409
      yield* start(run)
      yield* reported(run)
      yield* quiet(run, "events go on after 409")
      yield* check(run.events.length <= 2, "the run went on after 409")
    })
  },
  {
    name: "stops a run, and answers 2xx or 404 for one that it does not know",
    run: Effect.fnUntraced(function*({ newRun, post, quiet, reported, start }) {
      const run = yield* newRun()
      // The run cannot end before it is stopped.
      run.answer = () => 503
      yield* start(run)
      yield* reported(run)
      const unknown = yield* newRun()
      for (const { id } of [run, unknown]) {
        const { isOk, status } = yield* post(`/runs/${id}/stop`, { reason: "canceled" })
        yield* check(isOk || status === 404, `a stop answered ${status}`)
      }
      yield* quiet(run, "events go on after a stop")
    })
  },
  {
    name: "accepts a conversation of 4 MB, and options, whether it follows them or not",
    run: Effect.fnUntraced(function*({ begin, ended }) {
      const turns = [{ role: "user", content: "x".repeat(4_000_000) }]
      const response_format = { type: "json_schema", name: "answer", schema: { type: "object" } }
      yield* ended(yield* begin({ turns, options: { max_output_tokens: 100, response_format } }))
    })
  },
  {
    name: "declares a silence of 10 to 3,600 s, or none",
    run: Effect.fnUntraced(function*({ ended, newRun, start }) {
      const run = yield* newRun()
      const declared = declaredBy((yield* start(run)).answer) ?? null
      const isValid = declared === null || (typeof declared === "number" && declared >= 10 && declared <= 3600)
      yield* check(isValid, `silence_seconds is ${JSON.stringify(declared)}`)
      yield* ended(run)
    })
  },
  {
    name: "calls client tools, and resumes with state and results",
    needsTools: true,
    run: Effect.fnUntraced(function*({ begin, core, ended }) {
      const tools = {
        assistant_id: core.toolsAssistant,
        client_tools: [{ type: "function", name: "look", parameters: { type: "object" } }]
      }
      const { state = null, tool_calls: calls = [], type } = yield* ended(yield* begin(tools))
      yield* check(type === "interrupted" && calls.length > 0, `the run ended with ${type}`)
      const results = calls.map(({ id }) => ({ tool_call_id: id, output: { found: true } }))
      const last = yield* ended(yield* begin({ ...tools, resume: { state, results } }))
      yield* check(last.type !== "failed", "the resumed run failed")
    })
  }
]
