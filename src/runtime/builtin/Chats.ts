/** What an interrupted turn goes on from: one file a chat, kept for longer than any task may last. */
import { Clock, Duration, Effect, FileSystem, Option, Path, Schedule } from "effect"
import * as Limits from "../../domain/Limits.ts"
import type { Turn } from "./Conversation.ts"

export type Chats = Effect.Success<ReturnType<typeof make>>

const keptFor = Duration.sum(Duration.seconds(Limits.maxExecutionTime), Duration.hours(1))

export const make = Effect.fnUntraced(function*(root: string) {
  const files = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  yield* files.makeDirectory(root, { recursive: true })
  const fileOf = (chatId: string) => paths.join(root, `${chatId}.json`)

  const removeOld = Effect.gen(function*() {
    const oldest = (yield* Clock.currentTimeMillis) - Duration.toMillis(keptFor)
    yield* Effect.forEach(yield* files.readDirectory(root), (name) =>
      files.stat(paths.join(root, name)).pipe(
        Effect.filterOrFail(({ mtime }) => Option.exists(mtime, (date) => date.getTime() < oldest)),
        Effect.andThen(files.remove(paths.join(root, name))),
        Effect.ignore
      ))
  })
  yield* removeOld.pipe(Effect.ignore, Effect.repeat(Schedule.spaced("1 hour")), Effect.forkScoped)

  return {
    /** Whole or not at all: a reader never meets half a file. */
    save: (chatId: string, turn: Turn) =>
      files.writeFileString(`${fileOf(chatId)}.new`, JSON.stringify(turn)).pipe(
        Effect.andThen(files.rename(`${fileOf(chatId)}.new`, fileOf(chatId))),
        Effect.orDie
      ),
    load: (chatId: string): Effect.Effect<Turn | undefined> =>
      files.readFileString(fileOf(chatId)).pipe(
        Effect.map((text) => JSON.parse(text) as Turn),
        Effect.orElseSucceed(() => undefined)
      )
  }
})
