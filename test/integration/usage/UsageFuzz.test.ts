/** Queries of usage: valid ones of random parameters, and ones that break a single rule. `FUZZ_SEED` chooses others, as each night does. */
import { randomUUID } from "node:crypto"
import { assert, it } from "vitest"
import { casesOr, type Fields, noMoment, seed } from "../../kit/fuzz/Values.ts"
import { internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { Dice } from "../../simulation/Dice.ts"

const cases = casesOr(200)
const { database, service } = await use(startSystem())

const never = ["", "\0", "\u{1F469}".repeat(300), "x,y", "1e3", "-1", "../", "' OR 1=1 --", "[]", "null"]
const moments = [...never, ...noMoment.slice(0, 4)]

const ofAll: Fields<string> = {
  to: { valid: ["2026-01-20T00:00:00Z", "2026-01-31T23:59:59.999999Z"], invalid: moments },
  from: { valid: ["2026-01-01T00:00:00Z", "2026-01-15T10:30:00.5+02:00"], invalid: moments },
  step: { valid: ["hour", "day", "month", "total"], invalid: [...never, "Day", "week", "day,hour"] },
  group_by: { valid: ["assistant", "model", "model,assistant", "model,model"], invalid: [...never, "model,", "step"] },
  assistant_id: { valid: ["1", "2", "9007199254740991"], invalid: [...never, "0", "1.5", "9007199254740992"] },
  unknown: { valid: ["1", "", "\0"], invalid: [] }
}

const ofOperators: Fields<string> = {
  ...ofAll,
  group_by: { ...ofAll["group_by"]!, valid: ["sub", "sub,model", "assistant,sub"] },
  sub: { valid: ["nobody", "ünï 'code\"", "x".repeat(255)], invalid: ["", "\0", "x".repeat(256)] },
  order: { valid: ["period", "tokens", "cost"], invalid: [...never, "sub", "tokens desc"] },
  limit: { valid: ["1", "10000"], invalid: [...never, "0", "10001", "1.5"] }
}

const additive = "tasks input_tokens output_tokens total_tokens active_seconds unpriced_tokens".split(" ")

const fill = (sub: string) =>
  database.query(
    `INSERT INTO usage_hours (sub, hour, assistant_id, model, tasks, completed, failed, canceled, input_tokens, output_tokens,
      total_tokens, cached_input_tokens, reasoning_tokens, active_seconds, unpriced_tokens, unmetered_tasks, cost)
    SELECT '${sub}', timestamptz '2025-12-31 20:00Z' + n * interval '3 hours', n % 3 + 1, (ARRAY['', 'm', 'ü'])[n % 3 + 1], 1, 1, 0, 0,
      n, 1, n + 1, 0, 0, n, n, 0, CASE WHEN n % 2 = 0 THEN n * 0.001 END
    FROM generate_series(0, 300) n`
  )

it(`answers any query of usage with sums or the parameter that is wrong (FUZZ_SEED=${seed})`, async () => {
  const dice = new Dice(seed)
  const sub = `fuzz-${randomUUID()}`
  await fill(sub)
  const token = await mint(sub)
  for (let index = 0; index < cases; index++) {
    const isOperator = dice.chance(0.5)
    const parameters = isOperator ? ofOperators : ofAll
    const chosen = Object.keys(parameters).filter(() => dice.chance(0.5))
    // Without an end, the range would be too long for short steps.
    const names = chosen.includes("from") ? [...new Set([...chosen, "to"])] : chosen
    const broken = dice.chance(0.4)
      ? dice.pick(names.filter((name) => parameters[name]!.invalid.length > 0))
      : undefined
    const query = names.flatMap((name) => {
      const { invalid, valid } = parameters[name]!
      if (name !== broken) return [[name, dice.pick(valid)!]]
      const value = dice.pick(valid)!
      return dice.pick([[[name, dice.pick(invalid)!]], [[name, value], [name, value]], [[`${name}[x]`, value]]])!
    })
    const path = `${isOperator ? "/internal/operator/usage" : "/api/usage"}?${new URLSearchParams(query)}`
    const { body, status } = await service.call("GET", path, isOperator ? internalToken : token)
    if (broken !== undefined) {
      assert.deepStrictEqual([status, Object.keys(body.errors ?? {})], [422, [broken]], path)
      continue
    }
    assert.strictEqual(status, 200, `${path} ${JSON.stringify(body)}`)
    const limit = new URLSearchParams(query).get("limit")
    if (limit !== null) {
      assert.isAtMost(body.data.length, Number(limit), path)
      continue
    }
    for (const name of additive) {
      const sum = body.data.reduce((sum: number, bucket: Readonly<Record<string, number>>) => sum + bucket[name]!, 0)
      assert.strictEqual(sum, body.totals[name], `${path} ${name}`)
    }
  }
}, 120_000)
