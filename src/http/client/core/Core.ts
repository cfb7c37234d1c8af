/** The two calls of a processing core as a handler of requests: admits, executes and stops runs. */
import type { Turn } from "../../../domain/Turn.ts"
import { randomId } from "../promise/Transport.ts"
import type { CoreLog, CoreOptions } from "./CoreTypes.ts"
import { type Address, Events } from "./Events.ts"
import { failureOf, fromWireState, Interrupt, RunStopped, toTurn, toWholeTurn, toWireState } from "./Outcome.ts"
import { Progress } from "./Progress.ts"
import { makeRun, messagesOf, type StartRun } from "./RunContext.ts"

/** Bytes: a request of 16 MiB with its earlier turns, the state and results of a resume. */
const maxBodyBytes = 64 * 1024 * 1024
/** Ended runs that are remembered, so that a repeated dispatch does not begin one again. */
const rememberedRuns = 10_000
/** Milliseconds: a longer timer would fire immediately. */
const maxTimer = 2 ** 31 - 1
/** Seconds after which the service tries again. */
const retryAfter = { full: 1, draining: 5 }
/** Milliseconds after a stop in which a function should have ended. */
const stopGrace = 30_000

interface Entry {
  readonly controller: AbortController
  /** Resolves when the run no longer takes a place. */
  readonly ended: Promise<void>
}

export interface Core {
  /** Answers the calls of the service, and `GET /healthz`. */
  readonly fetch: (request: Request) => Promise<Response>
  /** Takes no more runs, waits for those in progress, and aborts what is left, which the service begins again elsewhere. */
  readonly close: (options?: { readonly drainSeconds?: number }) => Promise<void>
}

const json = (status: number, body: object, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } })

/* oxlint-disable eslint/no-console -- the log of a process */
// @effect-diagnostics globalConsole:off
export const consoleLog: CoreLog = {
  info: (message) => console.log(message),
  error: (message, cause) => cause === undefined ? console.error(message) : console.error(message, cause)
}
/* oxlint-enable eslint/no-console */

/** The variables of the process, also in Bun and Deno; empty elsewhere. */
export const environment = (): Readonly<Record<string, string | undefined>> =>
  (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {}

const listOf = (text: string | undefined): ReadonlyArray<string> =>
  (text ?? "").split(",").map((token) => token.trim()).filter((token) => token !== "")

/** The tokens of the options, or else of the environment. */
export const tokensOf = ({ eventToken, token }: Pick<CoreOptions, "eventToken" | "token">) => {
  const env = environment()
  const given = token === undefined ? listOf(env["CORE_TOKEN"]) : typeof token === "string" ? listOf(token) : token
  return { tokens: given, eventToken: eventToken ?? listOf(env["CORE_EVENT_TOKENS"])[0] }
}

const checked = (options: CoreOptions) => {
  const { drainSeconds = 60, runs = 16, silenceSeconds = 60 } = options
  const { eventToken, tokens } = tokensOf(options)
  if (typeof options.run !== "function") throw new TypeError("run must be a function")
  if (!Number.isInteger(runs) || runs < 1) throw new TypeError(`runs must be an integer from 1, not ${String(runs)}`)
  if (silenceSeconds !== null && !(silenceSeconds >= 10 && silenceSeconds <= 3600)) {
    throw new TypeError(`silenceSeconds must be 10 to 3600 or null, not ${String(silenceSeconds)}`)
  }
  if (!(drainSeconds >= 0)) throw new TypeError(`drainSeconds must be a number from 0, not ${String(drainSeconds)}`)
  if (tokens.length === 0) {
    throw new TypeError("CORE_TOKEN is not set: it has to be one of CORE_TOKEN of the service (or pass token)")
  }
  if (eventToken === undefined || eventToken === "") {
    throw new TypeError("CORE_EVENT_TOKENS is not set: its first token is sent with events (or pass eventToken)")
  }
  const serviceUrl = options.serviceUrl?.replace(/\/+$/, "")
  if (serviceUrl !== undefined && !/^https?:\/\//.test(serviceUrl)) {
    throw new TypeError("serviceUrl must be an http or https URL")
  }
  return { drainSeconds, eventToken, runs, serviceUrl, silenceSeconds, tokens }
}

/** Returns a function that says whether a token is one of `tokens`, in a time that does not depend on how much of it is right. */
const makeIsKnown = (tokens: ReadonlyArray<string>) => {
  const encoder = new TextEncoder()
  const digest = async (text: string) => new Uint8Array(await crypto.subtle.digest("SHA-256", encoder.encode(text)))
  const known = Promise.all(tokens.map(digest))
  return async (token: string): Promise<boolean> => {
    const given = await digest(token)
    let isKnown = false
    for (const one of await known) {
      let difference = 0
      for (const [index, byte] of one.entries()) difference |= byte ^ (given[index] ?? 0)
      isKnown = difference === 0 || isKnown
    }
    return isKnown
  }
}

/** The text of a body; undefined when it is too long. */
const readBounded = async (request: Request): Promise<string | undefined> => {
  if (Number(request.headers.get("content-length")) > maxBodyBytes) return undefined
  if (request.body === null) return ""
  const decoder = new TextDecoder()
  const reader = request.body.getReader()
  let size = 0
  let text = ""
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    size += next.value.byteLength
    if (size > maxBodyBytes) {
      await reader.cancel().catch(() => {})
      return undefined
    }
    text += decoder.decode(next.value, { stream: true })
  }
  return text + decoder.decode()
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The fields that a run cannot go without, with what is wrong. */
const problemsOf = (body: unknown): Record<string, ReadonlyArray<string>> => {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return { body: ["Must be a JSON object"] }
  // An object: checked above.
  const fields = body as Record<string, unknown>
  const problems: Record<string, ReadonlyArray<string>> = {}
  for (const name of ["task_id", "run_id", "events_url"]) {
    if (typeof fields[name] !== "string" || fields[name] === "") problems[name] = ["Must be a text"]
  }
  if (problems["events_url"] === undefined && !/^https?:\/\/[^/]/.test(String(fields["events_url"]))) {
    problems["events_url"] = ["Must be an http or https URL"]
  }
  for (const name of ["input", "turns", "client_tools"]) {
    if (fields[name] !== undefined && !Array.isArray(fields[name])) problems[name] = ["Must be an array"]
  }
  const { resume } = fields
  if (resume != null && (typeof resume !== "object" || Array.isArray(resume))) {
    problems["resume"] = ["Must be an object"]
  }
  return problems
}

const isJson = (value: unknown) => {
  try {
    JSON.stringify(value)
    return true
  } catch {
    return false
  }
}

/**
 * A processing core around a function. Every event of a run carries the run's id, which is its fence: the service answers 409 to a run
 * that is over, and the run is aborted.
 */
export const createCore = (options: CoreOptions): Core => {
  const { drainSeconds, eventToken, runs, serviceUrl, silenceSeconds, tokens } = checked(options)
  const { fetch = globalThis.fetch.bind(globalThis), log = consoleLog, run: work } = options
  const events = new Events({ token: eventToken, fetch, log })
  const isKnown = makeIsKnown(tokens)
  const entries = new Map<string, Entry>()
  const ended = new Set<string>()
  let isDraining = false

  const remember = (runId: string) => {
    ended.add(runId)
    const [oldest] = ended
    if (ended.size > rememberedRuns && oldest !== undefined) ended.delete(oldest)
  }

  const execute = async (body: StartRun, controller: AbortController): Promise<void> => {
    const { signal } = controller
    const address: Address = {
      taskId: body.task_id,
      runId: body.run_id,
      eventsUrl: serviceUrl === undefined ? body.events_url : `${serviceUrl}/internal/core/events`
    }
    // Another process may have numbered events of this run.
    const prefix = randomId().slice(0, 12)
    let number = 0
    const newId = () => `${prefix}-${++number}`
    const onUnwanted = () => controller.abort(new RunStopped("superseded"))
    const send = async (fields: object) => {
      const event = { task_id: address.taskId, run_id: address.runId, event_id: newId(), ...fields }
      const { verdict } = await events.send(address.eventsUrl, event, signal)
      if (verdict === "unwanted") onUnwanted()
      return verdict
    }

    await send({ type: "processing" })
    if (signal.aborted) return
    const signAfter = silenceSeconds === null ? undefined : silenceSeconds * 1000 / 3
    const { state, usage } = fromWireState(body.resume?.state)
    const wholeTurnOf = (turn: Turn) => toWholeTurn(turn, messagesOf(body), usage)
    const progress = new Progress({ address, events, signal, signAfter, newId, wholeTurnOf, onUnwanted })
    const outcomeOf = (result: unknown): object => {
      if (result instanceof Interrupt) {
        const { calls, state: left } = result
        const turn = result.turn === undefined ? progress.turn : wholeTurnOf(result.turn)
        return {
          type: "interrupted",
          tool_calls: calls,
          state: toWireState(left, usage),
          ...(turn === undefined ? {} : { turn })
        }
      }
      const written = result === undefined ? progress.turn : undefined
      return { type: "completed", turn: written ?? wholeTurnOf(toTurn(result)) }
    }
    const failed = (error: unknown) => {
      const failure = failureOf(error)
      if (!("message" in failure) && failure.code === "internal") {
        log.error(`Run ${address.runId} of task ${address.taskId} failed`, error)
      }
      const turn = progress.turn
      return turn === undefined || !isJson(turn) ? failure : { ...failure, turn }
    }
    const run = makeRun({ body, signal, progress, usage, state, serviceUrl, fetch })
    let final: object
    try {
      final = outcomeOf(await work(run))
      // A result that is no JSON fails the run: unsent, its task would wait for its time limit.
      JSON.stringify(final)
    } catch (error) {
      // An error of a stopped function is the stop, however the function has wrapped it.
      if (signal.aborted) return
      final = failed(error)
    }
    await progress.end()
    if (signal.aborted) return
    if (await send(final) === "invalid") await send({ type: "failed", code: "internal" })
  }

  /** Executes a run, which holds its place until the function has ended, also when it was stopped. */
  const start = (body: StartRun) => {
    const controller = new AbortController()
    const { signal } = controller
    const left = Date.parse(body.deadline_at ?? "") - Date.now()
    // The service ends a task itself. A deadline in the past is one of another clock.
    const deadline = left > 0 && left <= maxTimer
      ? setTimeout(() => controller.abort(new RunStopped("deadline")), left)
      : undefined
    let grace: ReturnType<typeof setTimeout> | undefined
    signal.addEventListener("abort", () => {
      grace = setTimeout(() => {
        log.error(`The function of run ${body.run_id} goes on although it was stopped: it should end with run.signal`)
      }, stopGrace)
    })
    const finish = () => {
      clearTimeout(deadline)
      clearTimeout(grace)
      entries.delete(body.run_id)
      remember(body.run_id)
    }
    const execution = execute(body, controller).catch((error: unknown) => {
      if (!signal.aborted) log.error(`Run ${body.run_id} of task ${body.task_id} could not be reported`, error)
    })
    entries.set(body.run_id, { controller, ended: execution.then(finish) })
  }

  const accept = async (request: Request): Promise<Response> => {
    const text = await readBounded(request)
    if (text === undefined) return json(413, { message: `The body is larger than ${maxBodyBytes} bytes` })
    const body = parse(text)
    const errors = problemsOf(body)
    const [problem] = Object.entries(errors)
    if (problem !== undefined) return json(422, { message: `${problem[0]}: ${problem[1][0]}`, errors })
    // It has the fields without which there is no run; the service sends the others.
    const started = body as StartRun
    if (!entries.has(started.run_id) && !ended.has(started.run_id)) {
      const busy = isDraining ? "draining" : entries.size >= runs ? "full" : undefined
      if (busy !== undefined) {
        const message = isDraining ? "The core is stopping" : `The core has ${runs} runs, as many as it takes`
        return json(429, { message }, { "retry-after": String(retryAfter[busy]) })
      }
      start(started)
    }
    return json(202, silenceSeconds === null ? {} : { silence_seconds: silenceSeconds })
  }

  const stop = async (request: Request, runId: string): Promise<Response> => {
    const body = parse((await readBounded(request)) ?? "")
    const given = typeof body === "object" && body !== null && "reason" in body ? body.reason : undefined
    const entry = entries.get(runId)
    if (entry === undefined) return json(404, { message: "There is no such run" })
    entry.controller.abort(new RunStopped(typeof given === "string" ? given : "stopped"))
    return json(202, {})
  }

  const answer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url)
    if (pathname === "/healthz") {
      return json(200, { status: isDraining ? "draining" : "ok", active: entries.size, runs })
    }
    const [, stopped] = /^\/runs\/([^/]+)\/stop$/.exec(pathname) ?? []
    if (pathname !== "/runs" && stopped === undefined) return json(404, { message: "There is no such path" })
    if (request.method !== "POST") return json(405, { message: "Only POST is allowed" }, { allow: "POST" })
    const [, token = ""] = /^Bearer +(.+)$/i.exec(request.headers.get("authorization") ?? "") ?? []
    if (!await isKnown(token)) {
      const message = "The token is not CORE_TOKEN of this core"
      return json(401, { message }, { "www-authenticate": "Bearer" })
    }
    return stopped === undefined ? accept(request) : stop(request, decodeURIComponent(stopped))
  }

  return {
    fetch: answer,
    close: async ({ drainSeconds: given = drainSeconds } = {}) => {
      isDraining = true
      const all = () => Promise.all(Array.from(entries.values(), (entry) => entry.ended))
      const within = (milliseconds: number) => {
        let timer: ReturnType<typeof setTimeout> | undefined
        const late = new Promise<void>((resolve) => {
          timer = setTimeout(resolve, Math.min(milliseconds, maxTimer))
        })
        return Promise.race([all(), late]).finally(() => clearTimeout(timer))
      }
      await within(given * 1000)
      if (entries.size === 0) return
      log.info(`${entries.size} runs are given up: the service begins them again`)
      for (const { controller } of entries.values()) controller.abort(new RunStopped("shutdown"))
      await within(1000)
    }
  }
}
