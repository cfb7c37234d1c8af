/** A webhook target that keeps what is held at a gate from being delivered, and is as slow and faulty as others otherwise. */
import { WebhookTarget } from "../kit/WebhookTarget.ts"
import { Gate } from "./Gate.ts"
import { pause } from "./pause.ts"
import { Recorder } from "./Recorder.ts"

export class Target {
  recorder = new Recorder()
  readonly #gates: ReadonlyMap<string, Gate>
  readonly #server = new WebhookTarget()

  constructor(gates: ReadonlyMap<string, Gate>) {
    this.#gates = gates
    this.#server.onPost = async ({ body, headers, url }, response) => {
      const taskId = String(headers["x-task-uuid"])
      this.recorder.posted(String(headers["webhook-id"]), body)
      const [, , gateId, number] = url.split("/")
      const gate = this.#gates.get(gateId ?? "")
      if (gate !== undefined && !gate.isOpen) {
        // Few are kept waiting: a node opens 8 connections to a target that it does not know yet.
        if (Number(number) % 3 !== 0) {
          gate.arrive(taskId)
          return response.writeHead(500).end()
        }
        await gate.pass(taskId)
      }
      await pause(Math.random() * 20)
      response.writeHead(204).end()
      if (!response.destroyed) this.recorder.delivered.set(taskId, performance.now())
    }
  }

  async listen() {
    await this.#server.listen()
    return this
  }

  /** Without a gate nothing is held. */
  urlOf(gateId: string, number: number) {
    return `${this.#server.origin}/hook/${gateId}/${number}`
  }

  close() {
    return this.#server.close()
  }
}
