/** A webhook target that holds deliveries at a gate; without a gate it is slow and faulty like real ones. */
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { happens, upTo } from "./chance.ts"
import type { Gate } from "./Gate.ts"
import { Recorder } from "./Recorder.ts"

/** The gate name of a target that holds nothing and fails one of `failing` attempts. */
export const faulty = "faulty"
const failing = 0.05
const slowest = 50

export class Target extends WebhookTarget {
  recorder = new Recorder()
  readonly #gates: ReadonlyMap<string, Gate>

  constructor(gates: ReadonlyMap<string, Gate>) {
    super()
    this.#gates = gates
    this.script = async ({ body, headers, path }, response) => {
      const taskId = String(headers["x-task-uuid"])
      const id = String(headers["webhook-id"])
      this.recorder.posted(id, body)
      const [, , gateId, number] = path.split("/")
      const gate = this.#gates.get(gateId ?? "")
      if (gate !== undefined && !gate.isOpen) {
        // Only few requests are held, because a node opens at most 8 connections to an unproven target.
        if (Number(number) % 3 !== 0) {
          gate.arrive(taskId)
          return response.writeHead(500).end()
        }
        await gate.pass(taskId)
      }
      await upTo(slowest)
      // Only first attempts fail, so that every delivery ends soon.
      if (gateId === faulty && this.recorder.posts.get(id)?.length === 1 && happens(failing)) {
        return response.writeHead(500).end()
      }
      response.writeHead(204).end()
      if (!response.destroyed && !this.recorder.taken.has(id)) this.recorder.taken.set(id, performance.now())
    }
  }

  /** Without a gate no delivery is held. */
  urlOf(gateId: string, number: number) {
    return `${this.url}/hook/${gateId}/${number}`
  }
}
