/** The command `init`: prints secrets for compose.yaml. */
import { Command } from "effect/cli"
import { randomBytes } from "node:crypto"
import { described, print } from "./Root.ts"

/** 256 random bits that need no quoting in a shell, in `.env` or in a URL. */
const secret = () => randomBytes(32).toString("hex")

/** 32 bytes in base64 without `+` and `/`. */
const encryptionKey = (): string => {
  const key = randomBytes(32).toString("base64")
  return /[+/]/.test(key) ? encryptionKey() : key
}

export const command = Command.make("init", {}, () => {
  const settings = {
    POSTGRES_PASSWORD: secret(),
    JWT_SECRET: secret(),
    INTERNAL_TOKENS: secret(),
    CORE_TOKEN: secret(),
    CORE_EVENT_TOKENS: secret(),
    ENCRYPTION_KEY: encryptionKey()
  }
  const heading = "# The secrets of compose.yaml. Keep the file: without ENCRYPTION_KEY stored secrets are lost."
  return print(
    settings,
    (all) => [heading, ...Object.entries(all).map(([name, value]) => `${name}=${value}`)].join("\n")
  )
}).pipe(described("Print a complete .env for compose.yaml, with new random secrets", "init > .env"))
