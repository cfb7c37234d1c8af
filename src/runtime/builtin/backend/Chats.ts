/**
 * Interrupted turns, one file per chat, kept for longer than any task may last. Only each user's newest chats are kept,
 * because canceled tasks do not delete their chats.
 */
import { Clock, Duration, Effect, FileSystem, Option, Path } from "effect"
import { fromText, type JsonObject, toValue } from "../../../domain/json/OpaqueJson.ts"
import * as Limits from "../../../domain/Limits.ts"
import * as Worker from "../../../services/timing/Worker.ts"
import * as DataDirectory from "../../config/DataDirectory.ts"
import { isTurn, type Turn } from "./Conversation.ts"
import type { StorageQuota } from "./StorageQuota.ts"

export type Chats = Effect.Success<ReturnType<typeof make>>

export interface ChatsOptions {
  readonly root: string
  /** Maximum chats of one user, at least the maximum of active tasks. */
  readonly maxChats: number
  readonly quota: StorageQuota
}

const retention = Duration.sum(Duration.seconds(Limits.maxExecutionTime), Duration.hours(1))

/** Most recent users whose chats are counted. Chats of other users are deleted by age only. */
const maxUsers = 10_000

export const make = Effect.fnUntraced(function*({ maxChats, quota, root }: ChatsOptions) {
  const files = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  DataDirectory.makePrivate(root)
  const fileOf = (chatId: string) => paths.join(root, `${chatId}.json`)
  /** Chats of each user, oldest first. */
  const chatsOf = new Map<string, ReadonlyArray<string>>()

  const removeOld = Effect.gen(function*() {
    const oldest = (yield* Clock.currentTimeMillis) - Duration.toMillis(retention)
    yield* Effect.forEach(yield* files.readDirectory(root), (name) =>
      files.stat(paths.join(root, name)).pipe(
        Effect.filterOrFail(({ mtime }) => Option.exists(mtime, (date) => date.getTime() < oldest)),
        Effect.andThen(files.remove(paths.join(root, name))),
        Effect.ignore
      ))
  })
  yield* Worker.make({ name: "the deletion of old chats", runOnce: removeOld, interval: "1 hour" })

  /** Adds a chat, and returns the user's oldest chats that exceed the maximum. */
  const addChat = (user: string, chatId: string): ReadonlyArray<string> => {
    const chats = [...(chatsOf.get(user) ?? []).filter((id) => id !== chatId), chatId]
    chatsOf.delete(user)
    chatsOf.set(user, chats.slice(-maxChats))
    if (chatsOf.size > maxUsers) chatsOf.delete(chatsOf.keys().next().value ?? "")
    return chats.slice(0, -maxChats)
  }

  return {
    /** Saves a turn atomically, so that a reader never sees a partial file. */
    save: Effect.fnUntraced(function*(user: string, chatId: string, turn: JsonObject) {
      yield* quota.checkDisk
      const draft = `${fileOf(chatId)}.new`
      yield* files.writeFileString(draft, JSON.stringify(turn), { mode: DataDirectory.privateFile })
      yield* files.rename(draft, fileOf(chatId))
      yield* Effect.forEach(addChat(user, chatId), (id) => Effect.ignore(files.remove(fileOf(id))))
    }, Effect.orDie),
    load: (chatId: string): Effect.Effect<Turn | undefined> =>
      files.readFileString(fileOf(chatId)).pipe(
        Effect.map((text): unknown => toValue(fromText(text))),
        Effect.filterOrFail(isTurn),
        Effect.orElseSucceed(() => undefined)
      )
  }
})
