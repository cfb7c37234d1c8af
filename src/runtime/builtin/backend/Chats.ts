/**
 * What an interrupted turn goes on from: one file a chat, kept for longer than any task may last. Of one user only the newest
 * are kept, for a canceled task leaves its chat behind.
 */
import { Clock, Duration, Effect, FileSystem, Option, Path, Schedule } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import * as DataDirectory from "../../config/DataDirectory.ts"
import type { Turn } from "./Conversation.ts"
import type { StorageQuota } from "./StorageQuota.ts"

export type Chats = Effect.Success<ReturnType<typeof make>>

export interface ChatsOptions {
  readonly root: string
  /** Chats of one user; no user has more tasks that wait for tool results. */
  readonly maxChats: number
  readonly quota: StorageQuota
}

const keptFor = Duration.sum(Duration.seconds(Limits.maxExecutionTime), Duration.hours(1))

/** Users whose chats are counted, the latest ones. A forgotten user's chats end by their age. */
const maxUsers = 10_000

export const make = Effect.fnUntraced(function*({ maxChats, quota, root }: ChatsOptions) {
  const files = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  DataDirectory.makePrivate(root)
  const fileOf = (chatId: string) => paths.join(root, `${chatId}.json`)
  /** Chats of each user, oldest first. */
  const chatsOf = new Map<string, ReadonlyArray<string>>()

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

  /** Counts a chat, and returns the user's chats that are too many. */
  const addChat = (user: string, chatId: string): ReadonlyArray<string> => {
    const chats = [...(chatsOf.get(user) ?? []).filter((id) => id !== chatId), chatId]
    chatsOf.delete(user)
    chatsOf.set(user, chats.slice(-maxChats))
    if (chatsOf.size > maxUsers) chatsOf.delete(chatsOf.keys().next().value ?? "")
    return chats.slice(0, -maxChats)
  }

  return {
    /** Whole or not at all: a reader never meets half a file. */
    save: Effect.fnUntraced(function*(user: string, chatId: string, turn: Turn) {
      yield* quota.checkDisk
      const draft = `${fileOf(chatId)}.new`
      yield* files.writeFileString(draft, JSON.stringify(turn), { mode: DataDirectory.privateFile })
      yield* files.rename(draft, fileOf(chatId))
      yield* Effect.forEach(addChat(user, chatId), (id) => Effect.ignore(files.remove(fileOf(id))))
    }, Effect.orDie),
    load: (chatId: string): Effect.Effect<Turn | undefined> =>
      files.readFileString(fileOf(chatId)).pipe(
        Effect.map((text) => JSON.parse(text) as Turn),
        Effect.orElseSucceed(() => undefined)
      )
  }
})
