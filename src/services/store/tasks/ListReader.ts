/**
 * Reads pages of a user's tasks. The first statement is bounded. For more tasks than it examines, the keys of every ten-thousandth
 * match are kept for half a minute, so that a deep page reads along the index from the nearest of them and none counts anew.
 */
import { Cache, Duration, Effect, Exit, PartitionedSemaphore } from "effect"
import type { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import * as FairPermits from "../../limits/FairPermits.ts"
import { make as makeQueries } from "../sql/Queries.ts"
import * as ListStatement from "./ListStatement.ts"
import { type Mark, type Matches, step } from "./ListStatement.ts"
import type { TaskFilter, TaskPage } from "./TaskStore.ts"

/** Lists that are read at a time, fairly between users. */
const permits = { total: 4, perHolder: 1 }
/** A long list has a connection alone, because the statements behind it would wait. */
const longPermits = { permits: 1 }

const keptLists = 200
const keptFor = Duration.seconds(30)
/** The same of a list with few matches among many tasks: its changes are seen soon, and parallel requests share its count. */
const fewKeptFor = Duration.seconds(1)

/** After every key. */
const top = { skipped: 0, at: 7_258_118_400_000_000, uuid: "ffffffff-ffff-ffff-ffff-ffffffffffff" }

const totalOf = (marks: ReadonlyArray<Mark>) => {
  const last = marks.at(-1)
  return last === undefined ? 0 : last.position + last.rest
}

interface Marked {
  readonly marks: ReadonlyArray<Mark>
  readonly newer: number
}

export const make = Effect.gen(function*() {
  const { alone, count, rows } = yield* makeQueries
  const reading = FairPermits.make(permits)
  const readingLong = PartitionedSemaphore.makeUnsafe<string>(longPermits)

  const marksOf = yield* Cache.makeWith(
    (list: Matches) => alone(ListStatement.of(list).marks, ListStatement.bind(list)),
    {
      capacity: keptLists,
      timeToLive: (exit) => Exit.isFailure(exit) ? Duration.zero : totalOf(exit.value) > step ? keptFor : fewKeptFor
    }
  )

  /** The page and the number of all matches, if few tasks had to be examined. */
  const readShort = Effect.fnUntraced(function*(list: Matches, limit: number, offset: number) {
    yield* reading.take(list.sub, 1)
    const found = yield* rows(ListStatement.of(list).first, {
      ...ListStatement.bind(list),
      limit,
      offset: String(offset)
    })
    const { examined, total } = found[0] ?? { examined: 0, total: 0 }
    if (examined > step) return undefined
    return { tasks: found.flatMap((row) => row.uuid === null ? [] : [row]), total }
  }, Effect.scoped)

  /** The marks of the list, and the number of matches that are newer than they are. */
  const markedOf = (list: Matches): Effect.Effect<Marked, StoreUnavailable> =>
    Effect.gen(function*() {
      const marks = yield* Cache.get(marksOf, list)
      const [newest] = marks
      if (newest === undefined) return { marks, newer: 0 }
      const newer = yield* count(ListStatement.of(list).newer, {
        ...ListStatement.bind(list),
        at: newest.at,
        uuid: newest.uuid
      })
      if (newer <= step) return { marks, newer }
      yield* Cache.invalidate(marksOf, list)
      return yield* markedOf(list)
    })

  const readLong = Effect.fnUntraced(function*(list: Matches, limit: number, offset: number) {
    const { marks, newer } = yield* markedOf(list)
    const total = newer + totalOf(marks)
    const start = marks.findLast(({ position }) => position + newer <= offset)
    const { at, skipped, uuid } = start === undefined ? top : { ...start, skipped: start.position + newer }
    const wanted = Math.min(limit, total - offset)
    const tasks = wanted <= 0
      ? []
      : yield* alone(ListStatement.of(list).page, {
        ...ListStatement.bind(list),
        limit: wanted,
        offset: String(offset - skipped),
        at,
        uuid
      })
    return { tasks, total }
  }, (reading, { sub }) => readingLong.withPermit(sub)(reading))

  return Effect.fnUntraced(function*(filter: TaskFilter): Effect.fn.Return<TaskPage, StoreUnavailable> {
    const { assistantId = null, from = null, metadata = null, page, perPage, statuses, sub, to = null, uuids } = filter
    const list = { sub, statuses, metadata, assistantId, from, to, ...(uuids ? { uuids } : {}) }
    const offset = (page - 1) * perPage
    const isKnown = uuids ? false : yield* Cache.has(marksOf, list)
    const short = isKnown ? undefined : yield* readShort(list, perPage, offset)
    return short ?? (yield* readLong(list, perPage, offset))
  })
})
