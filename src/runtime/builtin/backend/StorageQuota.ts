/**
 * Limits of the built-in storage: bytes per user, and free bytes of the disk. The total of a user is in one small file, so it
 * survives restarts. Processes that share the directory read it anew for each complete file. Incomplete uploads are added to it when they are complete; until then all of a user's uploads together
 * may take up to another quota. Processes that share the directory do not see each other's incomplete uploads.
 */
import { Effect, Schema } from "effect"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import * as DataDirectory from "../../config/DataDirectory.ts"

/** The file exceeds a limit; the message is shown to the user. */
export class StorageFull extends Schema.TaggedError<StorageFull>()("StorageFull", { message: Schema.String }) {}

export interface QuotaOptions {
  /** Directory of the totals. */
  readonly directory: string
  readonly userBytes: number
  /** Bytes that must stay free on the disk. */
  readonly freeBytes: number
}

/** A file counts as at least one disk block, regardless of its size. */
const blockBytes = 4096

/** Bytes of one file between two checks of the disk. */
const checkBytes = 16 * 1024 * 1024

interface Usage {
  /** Bytes of complete files. */
  stored: number
  /** Bytes of incomplete files. */
  arriving: number
  uploads: number
}

/** Fails when the disk is nearly full. */
const makeCheckDisk = (directory: string, freeBytes: number) =>
  Effect.promise(() => fs.promises.statfs(directory)).pipe(
    Effect.filterOrFail(
      ({ bavail, bsize }) => bavail * bsize >= freeBytes,
      () => new StorageFull({ message: "The storage has no room for more files at the moment" })
    ),
    Effect.asVoid
  )

export type StorageQuota = ReturnType<typeof make>

export const make = ({ directory, freeBytes, userBytes }: QuotaOptions) => {
  DataDirectory.makePrivate(directory)
  const usages = new Map<string, Usage>()

  const fileOf = (user: string) => path.join(directory, createHash("sha256").update(user).digest("hex"))

  const load = (user: string): number => {
    const file = fileOf(user)
    return fs.existsSync(file) ? Number(fs.readFileSync(file, "utf8")) || 0 : 0
  }

  const save = (user: string, { stored }: Usage) => {
    const file = fileOf(user)
    fs.writeFileSync(`${file}.new`, String(stored), { mode: DataDirectory.privateFile })
    fs.renameSync(`${file}.new`, file)
  }

  const checkDisk = makeCheckDisk(directory, freeBytes)
  const full = new StorageFull({ message: `All your files together are larger than ${userBytes} bytes` })

  /** The meter of one upload: `pass` counts incoming bytes, `keep` adds the complete file to the user's total or fails. */
  const open = Effect.fnUntraced(function*(user: string) {
    yield* checkDisk
    let size = 0
    let unchecked = 0
    const usage = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const known = usages.get(user) ?? { stored: load(user), arriving: 0, uploads: 0 }
        usages.set(user, known)
        known.uploads++
        return known
      }),
      (usage) =>
        Effect.sync(() => {
          usage.arriving -= size
          if (--usage.uploads === 0) usages.delete(user)
        })
    )
    const add = (bytes: number) => {
      size += bytes
      usage.arriving += bytes
    }
    add(blockBytes)
    const isFull = () => usage.stored + size > userBytes || usage.stored + usage.arriving > 2 * userBytes
    if (isFull()) return yield* full
    return {
      pass: (bytes: number): Effect.Effect<void, StorageFull> => {
        add(bytes)
        unchecked += bytes
        if (isFull()) return Effect.fail(full)
        if (unchecked < checkBytes) return Effect.void
        unchecked = 0
        return checkDisk
      },
      keep: Effect.suspend(() => {
        // Another process that shares the directory may have stored a file since.
        usage.stored = load(user)
        if (usage.stored + size > userBytes) return Effect.fail(full)
        usage.stored += size
        save(user, usage)
        return Effect.void
      })
    }
  })

  return { open, checkDisk }
}
