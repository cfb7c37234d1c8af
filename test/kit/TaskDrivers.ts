/** The operations of a user's tasks over REST and over RPC, with outcomes that can be compared. */
import { NodeSocket } from "@effect/platform-node"
import { Cause, Context, Effect, Exit, Layer, ManagedRuntime, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import * as RpcClient from "../../src/http/client/RpcClient.ts"
import { report, type StartedRun } from "./ScriptedCore.ts"
import { type Answer, internalToken, mint, type Service } from "./Service.ts"

export class Client
  extends Context.Service<Client, RpcClient.InternalClient>()("async-task-service/test/kit/TaskDrivers/Client")
{}

export type Transport = "POST" | "WebSocket"

export const open = (transport: Transport, url: string, token = internalToken) => {
  const options = { url, token: Redacted.make(token) }
  const layer = transport === "POST"
    ? RpcClient.layerHttp(options).pipe(Layer.provide(FetchHttpClient.layer))
    : RpcClient.layerWebSocket(options).pipe(Layer.provide(NodeSocket.layerWebSocketConstructor))
  return ManagedRuntime.make(Layer.effect(Client, RpcClient.make).pipe(Layer.provide(layer)))
}

export type Call<A = unknown> = (client: RpcClient.InternalClient) => Effect.Effect<A, { readonly _tag: string }>

/** The outcome of a call in terms that REST and RPC share: a result, or the kind of failure. */
export type Outcome = { readonly ok: Record<string, any> } | {
  readonly failure: string
  readonly fields?: ReadonlyArray<string>
}

export interface Driver {
  readonly create: (body: object, key?: string) => Promise<Outcome>
  readonly get: (uuid: string) => Promise<Outcome>
  readonly list: (status: ReadonlyArray<string>) => Promise<Outcome>
  readonly submit: (uuid: string, results: ReadonlyArray<object>) => Promise<Outcome>
  readonly cancel: (uuid: string, body: object) => Promise<Outcome>
  readonly cancelInterrupted: () => Promise<Outcome>
  readonly delete: (uuid: string) => Promise<Outcome>
  readonly report: (run: StartedRun, event: object) => Promise<Outcome>
  readonly close: () => Promise<void>
}

const kinds: Readonly<Record<string, string>> = {
  "The task belongs to another user.": "TaskBelongsToAnother",
  "There is no such task.": "TaskNotFound"
}

export const overRest = (service: Service, sub: string): Driver => {
  const outcome = ({ body, status }: Answer, conflict = "TaskNotInterrupted"): Outcome =>
    status < 300
      ? { ok: body }
      : status === 422
      ? { failure: "InvalidRequest", fields: Object.keys(body.errors) }
      : {
        failure: kinds[body.message] ??
          (status === 409 ? conflict : status === 429 ? "TooManyActiveTasks" : body.message)
      }
  const call = async (method: string, address: string, body?: object, key?: string) =>
    outcome(
      await service.call(method, address, await mint(sub), body, key === undefined ? {} : { "idempotency-key": key })
    )
  return {
    create: (body, key) => call("POST", "/api/tasks", body, key),
    get: (uuid) => call("GET", `/api/tasks/${uuid}`),
    list: (status) => call("GET", `/api/tasks?status=${status.join(",")}`),
    submit: (uuid, results) => call("POST", `/api/tasks/${uuid}/tool-results`, { results }),
    cancel: (uuid, body) => call("POST", `/api/tasks/${uuid}/cancel`, body),
    cancelInterrupted: () => call("POST", "/api/tasks/cancel-interrupted"),
    delete: async (uuid) => {
      const { body, status } = await service.call("DELETE", `/api/tasks/${uuid}`, await mint(sub))
      return status === 204 ? { ok: {} } : outcome({ body, status, headers: new Headers() }, "TaskNotEnded")
    },
    report: async (run, event) => outcome({ ...await report(run, event), headers: new Headers() }, "RunSuperseded"),
    close: async () => {}
  }
}

export const overRpc = (service: Service, transport: Transport, sub: string): Driver => {
  const runtime = open(transport, service.url)
  const run = async (call: Call): Promise<Outcome> => {
    const exit = await runtime.runPromiseExit(Effect.flatMap(Client, call))
    if (Exit.isSuccess(exit)) return { ok: exit.value as Record<string, any> }
    const error = Cause.squash(exit.cause) as {
      readonly _tag: string
      readonly errors?: object
      readonly problems?: any
    }
    // REST reports mismatched tool results as 422.
    return error._tag === "ToolResultsMismatch"
      ? {
        failure: "InvalidRequest",
        fields: error.problems.map(({ index }: any) => index === null ? "results" : `results.${index}.tool_call_id`)
      }
      : { failure: error._tag, ...(error.errors === undefined ? {} : { fields: Object.keys(error.errors) }) }
  }
  return {
    create: (body, key) =>
      mint(sub).then((user_token) =>
        run((client) =>
          client["Tasks.create"]({
            sub,
            user_token,
            task: body as any,
            ...(key === undefined ? {} : { idempotency_key: key })
          })
        )
      ),
    get: (uuid) => run((client) => client["Tasks.get"]({ sub, uuid })),
    list: (status) => run((client) => client["Tasks.list"]({ sub, status })),
    submit: (uuid, results) =>
      mint(sub).then((user_token) =>
        run((client) => client["Tasks.submitToolResults"]({ sub, uuid, user_token, body: { results } as any }))
      ),
    cancel: (uuid, body) => run((client) => client["Tasks.cancel"]({ sub, uuid, body })),
    cancelInterrupted: () => run((client) => client["Tasks.cancelInterrupted"]({ sub })),
    delete: (uuid) => run((client) => Effect.as(client["Tasks.delete"]({ sub, uuid }), {})),
    report: ({ run_id, task_id }, event) =>
      run((client) =>
        client["Core.report"]({ event: { event_id: crypto.randomUUID(), ...event, task_id, run_id } as any })
      ),
    close: () => runtime.dispose()
  }
}
