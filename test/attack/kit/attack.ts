import { spawn } from "node:child_process"
import { text } from "node:stream/consumers"
import type { Volley } from "./attacker.ts"

/** Sends the volleys from a separate process and returns the statuses of each. A request without a response has status 0. */
export const attack = async (
  url: string,
  volleys: ReadonlyArray<Volley>
): Promise<ReadonlyArray<ReadonlyArray<number>>> => {
  const child = spawn(process.execPath, [`${import.meta.dirname}/attacker.ts`, url], {
    stdio: ["pipe", "pipe", "inherit"]
  })
  child.stdin.end(JSON.stringify(volleys))
  return JSON.parse(await text(child.stdout))
}
