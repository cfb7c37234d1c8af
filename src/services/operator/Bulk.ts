/** Bulk actions of operators: a row for each, which any node carries out. */
import { Context, Effect, Latch, Layer, type Option } from "effect"
import { SecureRandom } from "effect/crypto"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { TaskId } from "../../domain/Task.ts"
import { now } from "../../domain/Timestamp.ts"
import { type Delivery, parseDeliveryId } from "../../domain/Webhook.ts"
import { UserTokens } from "../tasks/UserTokens.ts"
import { type Bulk, BulkStore, type NewBulk } from "./BulkStore.ts"
import { type FoundTask, OperatorStore } from "./OperatorStore.ts"
import type { Selection } from "./Selection.ts"

/** Rows of a dry run. */
const sampled = 20

export interface Sample {
  readonly tasks: ReadonlyArray<FoundTask>
  readonly deliveries: ReadonlyArray<Delivery>
}

export class BulkActions extends Context.Service<BulkActions, {
  /** Whether tasks can run again: each needs a fresh token of its user. */
  readonly canRerun: boolean
  /** How many match, and the newest of them. */
  readonly dryRun: (
    selection: Selection
  ) => Effect.Effect<{ readonly matched: number; readonly sample: Sample }, StoreUnavailable>
  readonly count: (selection: Selection) => Effect.Effect<number, StoreUnavailable>
  readonly newId: Effect.Effect<string>
  readonly start: (bulk: Omit<NewBulk, "startedAt">) => Effect.Effect<void, StoreUnavailable>
  readonly get: (id: string) => Effect.Effect<Option.Option<Bulk>, StoreUnavailable>
  /** Newest first. */
  readonly list: Effect.Effect<ReadonlyArray<Bulk>, StoreUnavailable>
  /** None if it is not running. */
  readonly stop: (id: string) => Effect.Effect<Option.Option<Bulk>, StoreUnavailable>
  /** Ids of files of the assistant backend that an erasure has found. */
  readonly files: (id: string) => Effect.Effect<ReadonlyArray<string>, StoreUnavailable>
  /** Opened when an action begins on this node. */
  readonly wake: Latch.Latch
}>()("async-task-service/services/operator/Bulk/BulkActions") {
  static readonly layer = Layer.effect(BulkActions, Effect.suspend(() => make))
}

/** Ids of files that are listed. */
const listedFiles = 10_000

const make = Effect.gen(function*() {
  const store = yield* OperatorStore
  const bulks = yield* BulkStore
  const random = yield* SecureRandom.SecureRandom
  const tokens = yield* UserTokens
  const wake = Latch.makeUnsafe()

  return BulkActions.of({
    canRerun: tokens.isMinting,
    count: store.count,
    dryRun: Effect.fnUntraced(function*(selection) {
      const { rows } = yield* store.keys(selection, null, sampled)
      const isOfTasks = selection.of === "tasks"
      const matched = yield* store.count(selection)
      return {
        matched,
        sample: {
          tasks: isOfTasks ? yield* store.tasksById(rows.map(({ id }) => TaskId.make(id))) : [],
          deliveries: isOfTasks ? [] : yield* store.deliveriesById(rows.flatMap(({ id }) => parseDeliveryId(id) ?? []))
        }
      }
    }),
    newId: random.uuidV7(),
    start: (bulk) =>
      Effect.flatMap(now, (startedAt) => bulks.insert({ ...bulk, startedAt })).pipe(
        Effect.tap(() => Effect.sync(() => wake.openUnsafe()))
      ),
    get: bulks.get,
    list: bulks.list,
    stop: (id) => Effect.flatMap(now, (at) => bulks.stop(id, at)),
    files: (id) => bulks.files(id, listedFiles),
    wake
  })
})
