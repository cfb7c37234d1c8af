/** A webhook target that keeps what is held at a gate from being delivered, and is as slow and faulty as others otherwise. */
import { WebhookTarget } from "../kit/WebhookTarget.ts"
import type { Gate } from "./Gate.ts"
import { upTo } from "./pause.ts"
import { Recorder } from "./Recorder.ts"

/** Stands for a gate where nothing is held, and one of `failing` attempts goes wrong. */
export const faulty = "faulty"
const failing = 0.05
const slowest = 50

export class Target {
  recorder = new Recorder()
  readonly #gates: ReadonlyMap<string, Gate>
  readonly #server = new WebhookTarget()

  constructor(gates: ReadonlyMap<string, Gate>) {
    this.#gates = gates
    this.#server.onPost = async ({ body, headers, url }, response) => {
      const taskId = String(headers["x-task-uuid"])
      const id = String(headers["webhook-id"])
      this.recorder.posted(id, body)
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
      await upTo(slowest)
      // Only a first attempt fails, so that a run ends.
      if (gateId === faulty && this.recorder.posts.get(id)?.length === 1 && Math.random() < failing) {
        return response.writeHead(500).end()
      }
      response.writeHead(204).end()
      if (!response.destroyed && !this.recorder.taken.has(id)) this.recorder.taken.set(id, performance.now())
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
