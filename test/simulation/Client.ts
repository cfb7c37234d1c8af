/** A simulated user: acts at random and checks that every later response agrees with the earlier ones. */
import { Clock, Duration, Effect, Option, Redacted, Result } from "effect"
import type { Caller, Principal } from "../../src/domain/Principal.ts"
import { Revocation } from "../../src/domain/Revocation.ts"
import type { Task, TaskId } from "../../src/domain/Task.ts"
import { toCreateTask } from "../../src/domain/TaskRequest.ts"
import { readCalls, toToolResults } from "../../src/domain/ToolCall.ts"
import { RevocationsUnknown, TokenIsRevoked } from "../../src/services/tokens/TokenRevocations.ts"
import { DeliveryError, type Node } from "./Node.ts"
import { seenOf } from "./Seen.ts"
import { checkRead, interruptOf, taken } from "./Witness.ts"
import { observe, type World } from "./World.ts"

/** Seconds. */
const limits = [1, 5, 20, 29, 30, 31, 60, 120, 200, 200, 200]

/** Acts until the calm phase begins. */
export const live = (world: World, user: string, nodes: () => ReadonlyArray<Node>) => {
  const { acknowledged, dice, recorder, store } = world
  let tokens = 0
  const newCaller = (): Caller => ({
    principal: { sub: user, tokenId: `jti:${user}-${++tokens}`, issuedAt: null },
    token: Redacted.make(`token ${tokens} of ${user}`),
    expiresAt: 10_000_000_000
  })
  let caller = newCaller()
  const mine: Array<TaskId> = []
  const say = (what: string) => recorder.note(user, what)

  /** Sends a request to a random node, which checks the token first; undefined when the client has to retry. */
  const ask = <A, E>(request: (tasks: Node["tasks"]) => Effect.Effect<A, E>) =>
    Effect.gen(function*() {
      if (nodes().length === 0) return undefined
      const node = dice.pick(nodes())
      const { tokenId } = caller.principal
      const result = yield* Effect.result(
        node.call(Effect.andThen(node.revocations.check(caller.principal), request(node.tasks)))
      )
      if (result._tag === "Success") return Result.succeed(result.success)
      const { failure } = result
      if (failure instanceof DeliveryError || failure instanceof RevocationsUnknown) return undefined
      if (failure instanceof TokenIsRevoked) {
        return yield* Effect.as(recorder.violated(`${node.name} refuses ${tokenId}, which holds`), undefined)
      }
      return Result.fail(failure)
    })

  /** After a revocation every request with the token must be refused. */
  const checkRefused = Effect.fnUntraced(function*(node: Node, principal: Principal) {
    const result = yield* Effect.result(node.call(node.revocations.check(principal)))
    if (result._tag === "Success") yield* recorder.violated(`${node.name} takes ${principal.tokenId}, which is revoked`)
  })

  const created = Effect.fnUntraced(function*(uuid: TaskId, seconds: number, startedAt: number, isHooked: boolean) {
    if (acknowledged.has(uuid)) return
    const task = yield* store.get(uuid)
    if (task._tag === "None") return yield* recorder.violated(`${uuid} was acknowledged and does not exist`)
    const { createdAt } = task.value
    if (createdAt / 1000 < startedAt - 1) yield* recorder.violated(`${uuid} is older than the request that made it`)
    acknowledged.set(uuid, { uuid, user, createdAt, limit: seconds * 1000, isHooked })
    seenOf(world, uuid).tokens.add(caller.principal.tokenId)
    mine.push(uuid)
  })

  const create = Effect.gen(function*() {
    const seconds = dice.pick(limits)
    const startedAt = yield* Clock.currentTimeMillis
    const body = {
      assistant_id: 1,
      input: [{ type: "text", text: "Why?" }],
      max_execution_time: seconds,
      callback_url: dice.chance(0.5) ? "https://target.example/" : null,
      callback_secret: "secret"
    } as const
    const key = dice.chance(0.5) ? { value: `key-${dice.between(0, 1e9)}`, fingerprint: "create" } : undefined
    let first: TaskId | undefined
    // A create with a key is retried until it succeeds, and sometimes repeated after that.
    for (let attempts = 0; attempts < 20; attempts++) {
      const result = yield* ask((tasks) => tasks.create(caller, toCreateTask(body), key))
      if (result?._tag === "Success") {
        const { uuid } = result.success
        yield* say(`creates ${uuid}, for ${seconds} s${key === undefined ? "" : `, with ${key.value}`}`)
        if (first !== undefined && first !== uuid) yield* recorder.violated(`${key?.value} made ${first} and ${uuid}`)
        first = uuid
        yield* created(uuid, seconds, startedAt, body.callback_url !== null)
        if (key === undefined || dice.chance(0.7)) return
      } else if (result !== undefined) {
        yield* say(`may not create: ${result.failure._tag}`)
        return
      } else if (key === undefined) return
      yield* Effect.sleep("1 second")
    }
  })

  const answer = Effect.fnUntraced(function*(task: Task) {
    const calls = yield* readCalls(task.pendingToolCalls)
    const good = calls.map(({ id }) => ({ tool_call_id: id, output: dice.between(0, 1e9) }))
    const isGood = dice.chance(0.8)
    const results = isGood ? good : dice.pick([[], [...good, ...good], [{ tool_call_id: "other", output: 1 }]])
    const interrupt = interruptOf(world, task.uuid, calls[0]?.id)
    if (interrupt === undefined) return yield* recorder.violated(`${task.uuid} has calls that no core made`)
    if (isGood) interrupt.answers.add(JSON.stringify(results))
    seenOf(world, task.uuid).tokens.add(caller.principal.tokenId)
    const result = yield* ask((tasks) => tasks.submitToolResults(caller, task, toToolResults(results)))
    yield* say(
      `answers ${task.uuid}: ${
        result === undefined ? "no answer" : result._tag === "Success" ? "taken" : result.failure._tag
      }`
    )
    if (result?._tag !== "Success") return
    if (!isGood) return yield* recorder.violated(`wrong results of ${task.uuid} were taken`)
    yield* taken(world, task.uuid, interrupt, JSON.stringify(results))
  })

  const cancel = Effect.fnUntraced(function*(task: Task) {
    const reason = dice.pick([null, "enough", "no more"])
    seenOf(world, task.uuid).cancelReasons.add(reason)
    const result = yield* ask((tasks) => tasks.cancel(task, reason))
    yield* say(`cancels ${task.uuid}: ${result === undefined ? "no answer" : result._tag}`)
    if (result?._tag === "Success") yield* observe(world, task.uuid, "canceled", Infinity)
  })

  const withdraw = Effect.fnUntraced(function*({ uuid }: Task) {
    const reason = dice.pick([null, "enough"])
    seenOf(world, uuid).cancelReasons.add(reason)
    const result = yield* ask((tasks) =>
      Effect.flatMap(tasks.getHead(caller.principal, uuid), (head) => tasks.withdraw(head, reason))
    )
    yield* say(`withdraws ${uuid}: ${result === undefined ? "no answer" : result._tag}`)
    if (result?._tag === "Success") yield* observe(world, uuid, "canceled", Infinity)
  })

  const cancelInterrupted = Effect.gen(function*() {
    world.cancelingAll.add(user)
    const result = yield* ask((tasks) => tasks.cancelInterrupted(caller.principal))
    if (result?._tag !== "Success") return
    yield* say(`cancels all that is interrupted: ${result.success.length}`)
    for (const uuid of result.success) yield* observe(world, uuid, "canceled", Infinity)
  })

  /** Revokes the user's token and continues with a new one. The revoked token must not continue any task. */
  const revoke = Effect.gen(function*() {
    const old = caller.principal
    world.revoking.add(old.tokenId)
    caller = newCaller()
    const revocation = Revocation.cases.Token.make({ tokenId: old.tokenId, expiresAt: null })
    const node = nodes().length === 0 ? undefined : dice.pick(nodes())
    const result = node && (yield* Effect.result(node.call(node.tasks.revoke(revocation))))
    yield* say(`revokes ${old.tokenId}: ${result?._tag === "Success" ? "done" : "no answer"}`)
    if (node === undefined || result?._tag !== "Success") return
    yield* checkRefused(node, old)
    const revokedAt = yield* Clock.currentTimeMillis
    yield* Effect.sleep("5 seconds")
    for (const node of nodes()) if (node.faultedAt < revokedAt && !node.isFrozen) yield* checkRefused(node, old)
    yield* Effect.sleep(Duration.millis(world.sweepInterval))
    const isCalm = world.calmSince !== undefined && world.calmSince <= (yield* Clock.currentTimeMillis) - 5000
    for (const { uuid } of isCalm ? yield* store.revoked(undefined, 1000) : []) {
      const run = Option.getOrUndefined(yield* store.pendingRun(uuid))
      if (run?.principal.tokenId === old.tokenId) yield* recorder.violated(`${uuid} goes on with a revoked token`)
    }
  })

  const read = Effect.gen(function*() {
    if (mine.length === 0) return
    const uuid = dice.pick(mine)
    const askedAt = yield* Clock.currentTimeMillis
    const result = yield* ask((tasks) => tasks.get(caller.principal, uuid))
    if (result === undefined) return
    if (result._tag === "Failure") return yield* recorder.violated(`${uuid} cannot be read: ${result.failure._tag}`)
    const task = result.success
    yield* observe(world, uuid, task.status, askedAt, task.error)
    yield* checkRead(world, task, askedAt)
    if (dice.chance(0.03)) return yield* withdraw(task)
    if (task.status !== "interrupted") return
    const action = dice.weigh({ answer: 6, cancel: 1, "cancel all": 1, wait: 2 })
    if (action === "answer") yield* answer(task)
    if (action === "cancel") yield* cancel(task)
    if (action === "cancel all") yield* cancelInterrupted
  })

  const act = Effect.gen(function*() {
    const action = dice.weigh({ create: 4, read: 10, revoke: 0.2 })
    if (action === "create") yield* create
    if (action === "read") yield* read
    if (action === "revoke") yield* revoke
  })

  return Effect.gen(function*() {
    while (world.isRough) {
      yield* Effect.sleep(Duration.millis(dice.delay(6000)))
      yield* act
    }
  })
}
