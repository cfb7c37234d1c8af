/** How a node follows texts at another one, which is scripted here. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Layer, Redacted, Scope } from "effect"
import type { ServerResponse } from "node:http"
import { TaskId } from "../../../src/domain/Task.ts"
import * as TaskShard from "../../../src/domain/TaskShard.ts"
import * as ClusterPort from "../../../src/runtime/cluster/ClusterPort.ts"
import * as LiveNodes from "../../../src/runtime/cluster/LiveNodes.ts"
import { freePort } from "../../../src/runtime/node/LocalPort.ts"
import * as NodeCrypto from "../../../src/runtime/node/NodeCrypto.ts"
import { TaskOwnership } from "../../../src/services/cluster/TaskOwnership.ts"
import { Peers } from "../../../src/services/live/LivePeers.ts"
import { answerJson, LoopbackServer } from "../../kit/LoopbackServer.ts"
import { eventually } from "../../kit/Service.ts"

const [one, two] = ["019a0000-0000-7000-8000-000000000001", "019a0000-0000-7000-8000-000000000002"].map((id) =>
  TaskId.make(id)
) as [TaskId, TaskId]

interface Following {
  readonly tasks: ReadonlyArray<TaskId>
  readonly unfollow: ReadonlyArray<TaskId>
}

/** A node that owns all tasks, and answers a call to follow texts when the test says so. */
const startOwner = Effect.gen(function*() {
  const calls: Array<Following & { readonly answer: () => void }> = []
  let stream: ServerResponse | undefined
  const server = new LoopbackServer((request, response) => {
    const path = request.url!.split("?")[0]
    if (path === "/internal/live/shards") {
      answerJson(response, 200, { shards: Array.from({ length: TaskShard.count }, (_, shard) => shard) })
    } else if (path === "/internal/live/texts") {
      stream = response.writeHead(200)
      response.write("\n")
    } else {
      let body = ""
      request.on("data", (chunk) => body += chunk).on(
        "end",
        () => calls.push({ ...JSON.parse(body) as Following, answer: () => answerJson(response, 200, {}) })
      )
    }
  })
  yield* Effect.acquireRelease(Effect.promise(() => server.listen()), () => Effect.promise(() => server.close()))
  const cluster = { host: "127.0.0.1", port: yield* freePort }
  yield* Layer.build(ClusterPort.layer(cluster, Number(new URL(server.url).port)))
  const ownership = Layer.effect(
    TaskOwnership,
    Effect.map(TaskOwnership, (alone) => ({ ...alone, isMine: () => false, others: () => [cluster] }))
  ).pipe(Layer.provide(TaskOwnership.layerAlone))
  const peers = Layer.provide(LiveNodes.layer([Redacted.make("key")]), [ownership, NodeCrypto.layerRandom])
  return {
    peers,
    call: (index: number) => Effect.promise(() => eventually(async () => calls[index], (call) => call !== undefined)),
    calls,
    send: (line: object) => stream!.write(`${JSON.stringify(line)}\n`)
  }
})

const follow = Effect.fnUntraced(function*(uuid: TaskId, onChange: () => boolean = () => true) {
  const scope = yield* Scope.make()
  yield* Effect.provideService((yield* Peers).follow(uuid, onChange), Scope.Scope, scope)
  return Scope.close(scope, Exit.void)
})

describe("the texts of another node", () => {
  it.live("are given up by a call that cannot overtake the one that follows them", () =>
    Effect.gen(function*() {
      const { call, calls, peers } = yield* startOwner
      yield* Effect.gen(function*() {
        const stay = yield* follow(one)
        const first = (yield* call(0))!
        assert.deepInclude(first, { tasks: [one], unfollow: [] })
        first.answer()
        const leave = yield* follow(two)
        const second = (yield* call(1))!
        assert.deepInclude(second, { tasks: [two], unfollow: [] })
        // The reader leaves before the owner has answered, and another one comes.
        yield* leave
        const leaveAgain = yield* follow(two)
        yield* Effect.sleep("600 millis")
        assert.lengthOf(calls, 2)
        second.answer()
        const third = (yield* call(2))!
        assert.deepInclude(third, { tasks: [two], unfollow: [two] })
        third.answer()
        yield* leaveAgain
        const fourth = (yield* call(3))!
        assert.deepInclude(fourth, { tasks: [], unfollow: [two] })
        fourth.answer()
        yield* stay
      }).pipe(Effect.provide(peers))
    }))

  it.live("are given up also when their reader leaves after a change that did not fit", () =>
    Effect.gen(function*() {
      const { call, peers, send } = yield* startOwner
      yield* Effect.gen(function*() {
        const stay = yield* follow(one)
        const first = (yield* call(0))!
        first.answer()
        const refused = yield* Deferred.make<void>()
        const leave = yield* follow(two, () => {
          Deferred.doneUnsafe(refused, Effect.void)
          return false
        })
        const second = (yield* call(1))!
        second.answer()
        send({ task: two, version: 1, isWhole: false, base: 0, runId: null, offset: 7, text: "x" })
        yield* Deferred.await(refused)
        yield* Effect.sleep("1 millis")
        yield* leave
        for (let index = 2;; index++) {
          const { answer, tasks, unfollow } = (yield* call(index))!
          answer()
          assert.include(unfollow, two)
          if (!tasks.includes(two)) break
        }
        yield* stay
      }).pipe(Effect.provide(peers))
    }))
})
