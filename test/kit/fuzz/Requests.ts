/** Requests and helpers that the rules share. */
import { type Attempt, oneOf, type Rule } from "./Attempt.ts"

export const get: Omit<Attempt, "path" | "expected"> = { target: "ended", caller: "owner", method: "GET" }
export const post: Omit<Attempt, "path" | "expected"> = { target: "interrupted", caller: "owner", method: "POST" }
export const task = "/api/tasks/{uuid}"
export const small = `{"assistant_id":1,"input":[{"type":"text","text":"x"}]}`

export const each = (
  group: string,
  names: ReadonlyArray<string>,
  attempt: (name: string) => Attempt | ReadonlyArray<Attempt>
): ReadonlyArray<Rule> =>
  names.map((name) => ({ group, name: name.slice(0, 60), attempts: oneOf([attempt(name)].flat()) }))
