/** Bodies of schedules: valid ones of random fields, and ones that break a single rule, with each value that breaks it. */
import { randomUUID } from "node:crypto"
import { assert, describe, it } from "vitest"
import { casesOr, type Fields, invalid, noInteger, noMoment, noText, seed, some } from "../../kit/fuzz/Values.ts"
import { mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"
import { Dice } from "../../simulation/Dice.ts"

const cases = casesOr(120)
const { service } = await use(startSystem({ TOKEN_URL: "http://127.0.0.1:9" }))

const later = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()
const soon = later(30)
const text = { type: "text", text: "x" }
const moments = [0, {}, ...noMoment]

/** Those of a definition, apart from its moments. */
const common: Fields = {
  name: { valid: ["n", "ü".repeat(100), "\u202e👩‍👧", null], invalid: [...noText, "", "n".repeat(101)] },
  spread: { valid: [0, 3600, null], invalid: [...noInteger, -1, 3601] },
  overlap: { valid: ["skip", "queue", "allow", null], invalid: ["stop", "", 1, {}] },
  catchup_window: { valid: [60, 86_400, null], invalid: [...noInteger, 59, 86_401] },
  pause_after_failures: { valid: [1, 100, null], invalid: [...noInteger, 0, 101] },
  unknown: { valid: [1, null, { deep: [{}] }], invalid: [] }
}

const wrongCrons =
  "|0 9 * *|0 0 9 * * *|@daily|0 0 L * *|0 0 15W * *|0 0 * * MON#1|0 0 30 2 *|60 * * * *|*/0 * * * *|5-1 * * * *"
  + "|a b c d e|1,,2 * * * *|* * * * *\n* * * * *"
const crons = {
  valid: "* * * * *|0 9 * * MON-FRI| 5,10-20/3  */2 1,31 jan-MAR,12 fri-sun |0 0 29 2 *|59 23 31 12 7|0 0 31 2 1".split(
    "|"
  ),
  invalid: [...wrongCrons.split("|"), `${"1,".repeat(200)}1 * * * *`, ...noText]
}
const zones = {
  valid: ["UTC", "Europe/Berlin", "Asia/Kolkata", "US/Eastern", "europe/berlin", null],
  invalid: ["+02:00", "UTC+1", "Mars/Base", "", "x".repeat(5000), ...noText]
}

const shapes: ReadonlyArray<{ readonly base: object; readonly fields: Fields }> = [
  {
    base: { type: "cron", cron: "0 9 * * *" },
    fields: {
      ...common,
      type: { valid: ["cron"], invalid: ["daily", "", null, 1] },
      cron: crons,
      timezone: zones,
      starts_at: { valid: [soon, "2020-01-01t00:00:00.123456789+14:00", null], invalid: moments },
      ends_at: { valid: [later(4000), null], invalid: [...moments, later(-1)] },
      run_at: { valid: [null], invalid: [soon] },
      delay: { valid: [null], invalid: [60] }
    }
  },
  {
    base: { type: "once", delay: 3600 },
    fields: {
      ...common,
      delay: { valid: [1_000_000, 31_536_000], invalid: [...noInteger, 0, 31_536_001] },
      cron: { valid: [null], invalid: ["0 9 * * *"] },
      run_at: { valid: [null], invalid: [...moments, later(-1), later(400), soon] }
    }
  }
]

const taskFields: Fields = {
  assistant_id: { valid: [1, Number.MAX_SAFE_INTEGER], invalid: [...noInteger, 0, null] },
  input: { valid: [[text], [text, text]], invalid: [[], null, "x", {}] },
  max_execution_time: { valid: [1, 86_400, null], invalid: [...noInteger, 0, 86_401] },
  priority: { valid: [0, 5, null], invalid: [...noInteger, -1, 6] },
  callback_url: { valid: ["https://example.com/", null], invalid: ["ftp://a", "no", `https://a/${"b".repeat(2048)}`] },
  callback_secret: { valid: ["s".repeat(255), "", null], invalid: ["s".repeat(256), 1, "a\0"] },
  metadata: { valid: [{ a: "b" }, null], invalid: [{ a: 1 }, [], { "": "x".repeat(513) }] }
}

const bodyOf = (dice: Dice, { base, fields } = dice.pick(shapes)) => {
  const task = { assistant_id: 1, input: [text], ...some(dice, taskFields) }
  return { ...base, ...some(dice, fields), task }
}

/** Every value that breaks a rule, as the body of a schedule and the field of the error. */
const rules = shapes.flatMap((shape) => [
  ...invalid(shape.fields).map(([field, value]) => ({
    field,
    bodyOf: (dice: Dice): object => ({ ...bodyOf(dice, shape), [field]: value })
  })),
  ...invalid(taskFields).map(([name, value]) => ({
    field: `task.${name}`,
    bodyOf: (dice: Dice): object => {
      const { task, ...rest } = bodyOf(dice, shape)
      return { ...rest, task: { ...task, [name]: value } }
    }
  }))
])

const exclusive: ReadonlySet<string> = new Set(["run_at", "delay", "starts_at", "ends_at"])

/** Either or both of two fields that exclude each other may be named. */
const names = (errors: object, field: string) =>
  Object.keys(errors).some((name) =>
    name === field || name.startsWith(`${field}.`) || (exclusive.has(field) && exclusive.has(name))
  )

describe(`bodies of schedules with FUZZ_SEED=${seed}`, () => {
  it("are accepted, or refused for the field that breaks a rule", async () => {
    const dice = new Dice(seed)
    const problems: Array<string> = []
    const token = await mint(`fuzz-${randomUUID()}`)
    const call = (method: string, path: string, body: unknown) =>
      service.call(method, `/api/schedules${path}`, token, body)
    for (let index = 0; index < Math.max(cases, rules.length) && problems.length < 5; index++) {
      const isPut = dice.chance(0.3)
      const send = (body: object) => isPut ? call("PUT", "/by-key/fuzz", body) : call("POST", "", body)
      const body = bodyOf(dice)
      const made = await send(body)
      if (made.status !== 201) {
        problems.push(`${made.status} for ${JSON.stringify(body)}: ${JSON.stringify(made.body)}`)
        continue
      }
      const { bodyOf: brokenOf, field } = rules[index % rules.length]!
      for (const method of ["POST", "PATCH"]) {
        const body = brokenOf(dice)
        const refused = method === "POST" ? await send(body) : await call("PATCH", `/${made.body.id}`, body)
        if (refused.status !== 422 || !names(refused.body.errors, field)) {
          problems.push(
            `${refused.status} for ${method} with ${field} in ${JSON.stringify(body).slice(0, 600)}: `
              + JSON.stringify(refused.body).slice(0, 300)
          )
        }
      }
      const read = await call("GET", `/${made.body.id}`, undefined)
      if (read.body.revision !== 0) problems.push("a refused change changed something")
      await call("DELETE", `/${made.body.id}`, undefined)
    }
    assert.deepStrictEqual(problems, [], `FUZZ_SEED=${seed}`)
    assert.strictEqual((await call("GET", "", undefined)).body.meta.total, 0)
    assert.notMatch(service.output, /a request failed/)
  })

  it("that are no JSON objects, or too large, are refused", async () => {
    const token = await mint("fuzz-raw")
    const raw = (body: string, path = "") =>
      service.call("POST", `/api/schedules${path}`, token, body, {
        "content-type": "application/json"
      })
    for (const path of ["", "/preview"]) {
      for (
        const body of [`{|[]|null|"x"|{"type":"cron"|{"a":1}x`.split("|"), "[".repeat(2000) + "]".repeat(2000)].flat()
      ) {
        const { body: { errors }, status } = await raw(body, path)
        assert.strictEqual(status, 422, body.slice(0, 40))
        assert.isNotEmpty(Object.keys(errors))
      }
      assert.strictEqual((await raw(`{"type":"cron","name":"${"x".repeat(140_000)}"}`, path)).status, 413)
    }
  })

  it("of previews are refused for the field that breaks a rule", async () => {
    const dice = new Dice(seed)
    const fields: Fields = {
      cron: crons,
      timezone: zones,
      count: { valid: [1, 20, null], invalid: [...noInteger, 0, 21] },
      after: { valid: ["2026-03-27T12:00:00Z", null], invalid: moments }
    }
    for (const [index, [name, value]] of invalid(fields).entries()) {
      const token = await mint(`fuzz-preview-${index}`)
      const preview = (body: object) => service.call("POST", "/api/schedules/preview", token, body)
      const body = { cron: "0 9 * * *", ...some(dice, fields) }
      const shown = await preview(body)
      assert.strictEqual(shown.status, 200, JSON.stringify([body, shown.body]))
      const refused = await preview({ ...body, [name]: value })
      const found = [refused.status, Object.keys(refused.body.errors)]
      assert.deepStrictEqual(found, [422, [name]], `${name}: ${JSON.stringify(value)}`)
    }
  })
})
