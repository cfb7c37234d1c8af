/** A service with tasks in known states, to which attempts are sent. A wrong response is reported as a text. */
import { randomUUID } from "node:crypto"
import * as http from "node:http"
import { isDeepStrictEqual } from "node:util"
import type { TaskStatus } from "../../../src/domain/Task.ts"
import { complete, interrupt, report, type ScriptedCore, type StartedRun } from "../ScriptedCore.ts"
import { internalToken, mint, type Service } from "../Service.ts"
import { startSystem, type System } from "../System.ts"
import type { Attempt, Target } from "./Attempt.ts"

export interface Reply {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
}

interface Place {
  readonly uuid: string
  readonly run: StartedRun
  readonly token: string
}

/** The statuses of the owner's tasks. */
export const ownersStatuses: ReadonlyArray<TaskStatus> = ["completed", "processing", "interrupted"]

const toolCalls = ["c1", "c2", "c3"].map((id) => ({ id, name: "look", arguments: {} }))

/** A schema's internal name, which must not appear in messages for clients. */
const schemaName = /\bExpected [A-Z]/

const isMessage = (value: unknown) => typeof value === "string" && value !== "" && !schemaName.test(value)

/** The fields named by an error; undefined when the body is not a valid error. */
const fieldsOf = (text: string): ReadonlyArray<string> | undefined => {
  try {
    const { errors = {}, message } = JSON.parse(text)
    const isWellFormed = isMessage(message) &&
      Object.values(errors).every((list) => Array.isArray(list) && list.length > 0 && list.every(isMessage))
    return isWellFormed ? Object.keys(errors) : undefined
  } catch {
    return undefined
  }
}

/** Milliseconds. */
const requestTimeout = 30_000

/** Statuses of responses by Node itself, before our handlers run. */
const isOfNode = (status: number) => status === 400 || status === 431

const problemOf = (attempt: Attempt, { headers, status, text }: Reply): string | undefined => {
  const { field, statuses, total } = attempt.expected
  const actual = `${status} ${text.slice(0, 600)}`
  if (!statuses.includes(status)) return `expected ${statuses.join(" or ")}, got ${actual}`
  if (isOfNode(status)) return undefined
  if (total !== undefined && JSON.parse(text).meta.total !== total) return `expected ${total} tasks, got ${actual}`
  if (headers["x-request-id"] === undefined) return `no X-Request-Id: ${actual}`
  if (status < 400 || attempt.method === "HEAD") return undefined
  const fields = fieldsOf(text)
  if (fields === undefined) return `not a valid error body: ${actual}`
  if (field !== undefined && !isDeepStrictEqual(fields, [field])) return `expected an error of ${field} only: ${actual}`
  if (status === 401 && headers["www-authenticate"] !== "Bearer") return "no WWW-Authenticate"
  if (status === 405 && (headers.allow ?? "").split(", ").includes(attempt.method)) return `Allow: ${headers.allow}`
  if (status === 405 && !headers.allow) return "no Allow"
  return undefined
}

export class World {
  readonly service: Service
  readonly core: ScriptedCore
  /** Counts of responses by group of rules and status. */
  readonly answers = new Map<string, Map<number, number>>()
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 32 })
  readonly #places = new Map<Target, Place>()
  readonly #owner = mint("fuzz-owner")

  readonly #system: System

  private constructor(system: System) {
    this.#system = system
    this.service = system.service
    this.core = system.core
  }

  static async open(): Promise<World> {
    const world = new World(await startSystem({ ACCEPTANCE_TIMEOUT: "1 hour" }))
    for (const target of ["ended", "processing", "interrupted"] as const) {
      world.#places.set(target, await world.#prepare(target))
    }
    return world
  }

  async close() {
    this.#agent.destroy()
    await this.#system.close()
  }

  /** Creates a task, by a new user unless a token is given, and waits until it is dispatched. */
  async begin(body: string | object, given?: string): Promise<Place> {
    const token = given ?? await mint(randomUUID())
    const created = await this.service.call("POST", "/api/tasks", token, body)
    if (created.status !== 201) throw new Error(`${created.status} ${JSON.stringify(created.body)}`)
    const { uuid } = created.body
    return { uuid, run: await this.core.run(uuid), token }
  }

  async #prepare(target: Target): Promise<Place> {
    const isFresh = target.startsWith("fresh")
    const place = await this.begin(
      { assistant_id: 1, input: [{ type: "text", text: target }] },
      isFresh ? undefined : await this.#owner
    )
    if (target.endsWith("interrupted")) await interrupt(place.run, { tool_calls: toolCalls })
    else await report(place.run, { type: "processing" })
    if (target === "ended") await complete(place.run)
    return place
  }

  async #placeOf(target: Target): Promise<Place> {
    return this.#places.get(target) ?? this.#prepare(target)
  }

  /** The number of tasks that the owner has besides the targets, although all other creates of the owner were rejected. */
  async tasksTakenByRefusedCreates(): Promise<number> {
    const { body } = await this.service.call("GET", "/api/tasks", await this.#owner)
    return body.meta.total - this.#places.size
  }

  async #send(attempt: Attempt): Promise<Reply> {
    const place = attempt.target === "none" ? undefined : await this.#placeOf(attempt.target)
    const fill = (text: string) =>
      place === undefined ? text : text.replaceAll("{uuid}", place.uuid).replaceAll("{run_id}", place.run.run_id)
    const token = attempt.caller === "core"
      ? internalToken
      : attempt.caller === "newcomer"
      ? await mint(randomUUID())
      : place?.token ?? await this.#owner
    const body = typeof attempt.body === "string" ? Buffer.from(fill(attempt.body)) : attempt.body
    return new Promise<Reply>((resolve, reject) => {
      const request = http.request(this.service.url, {
        agent: this.#agent,
        signal: AbortSignal.timeout(requestTimeout),
        method: attempt.method,
        path: fill(attempt.path),
        headers: {
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { "content-type": "application/json", "content-length": body.length }),
          ...attempt.headers
        }
      }, (response) => {
        const chunks: Array<Buffer> = []
        response.on("data", (chunk) => chunks.push(chunk))
        response.on("error", reject)
        response.on(
          "end",
          () =>
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers,
              text: Buffer.concat(chunks).toString()
            })
        )
      })
      request.on("error", reject)
      request.end(body)
    })
  }

  /** Sends an attempt and returns the problem of its response, if any. */
  async try(group: string, attempt: Attempt): Promise<string | undefined> {
    const reply = await this.#send(attempt).catch((error: Error) => error)
    if (reply instanceof Error) return `no response: ${reply.message}`
    const counts = this.answers.get(group) ?? new Map<number, number>()
    counts.set(reply.status, (counts.get(reply.status) ?? 0) + 1)
    this.answers.set(group, counts)
    return problemOf(attempt, reply)
  }
}
