/**
 * Valid requests generated from the schemas, and invalid ones that break one rule each. `FUZZ_CASES` sets their number,
 * `FUZZ_SEED` repeats a run. A failure prints the rule, the smallest request that shows it, and the seed.
 */
import { Arbitrary, Effect } from "effect"
import { assert, describe, it } from "vitest"
import type { Rule } from "../kit/fuzz/Attempt.ts"
import { fieldRules } from "../kit/fuzz/FieldRules.ts"
import { headerRules } from "../kit/fuzz/HeaderRules.ts"
import { pathRules } from "../kit/fuzz/PathRules.ts"
import { queryRules } from "../kit/fuzz/QueryRules.ts"
import { runStory } from "../kit/fuzz/Story.ts"
import { textRules } from "../kit/fuzz/TextRules.ts"
import { stories } from "../kit/fuzz/ValidBodies.ts"
import { World } from "../kit/fuzz/World.ts"
import { mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const seed = process.env["FUZZ_SEED"] ?? String(Date.now())
const cases = Number(process.env["FUZZ_CASES"] ?? 1500)
const rules = [...fieldRules, ...textRules, ...queryRules, ...headerRules, ...pathRules]
const totalWeight = rules.reduce((sum, { weight = 1 }) => sum + weight, 0)

/** At least one run per rule, even with few cases. */
const runsOf = ({ weight = 1 }: Rule) => Math.max(1, Math.round(cases * weight / totalWeight))

const world = await use(World.open())

/** Checks a rule with requests of growing size. Returns the problem with the smallest request that shows it, if any. */
const check = (rule: Rule) =>
  Effect.map(
    Arbitrary.checkEffect(
      rule.attempts,
      (attempt) =>
        Effect.flatMap(
          Effect.promise(() => world.try(rule.group, attempt)),
          (problem) => problem === undefined ? Effect.succeed(true) : Effect.fail(problem)
        ),
      { runs: runsOf(rule), seed: `${seed} ${rule.name}`, size: 6, maxShrinks: 40 }
    ),
    (result) => {
      const failure = Arbitrary.formatCheckFailure(result)
      return failure === undefined ? [] : [`${rule.group}: ${rule.name}\n${failure.slice(0, 2000)}`]
    }
  )

const row = (name: string, counts: ReadonlyMap<number, number>) =>
  `${name}: ${[...counts].toSorted(([a], [b]) => a - b).map(([status, count]) => `${count} × ${status}`).join(", ")}`

/** Number of responses by status, for each group and in total. */
const table = () => {
  const total = new Map<number, number>()
  for (const counts of world.answers.values()) {
    for (const [status, count] of counts) total.set(status, (total.get(status) ?? 0) + count)
  }
  const tried = [...total.values()].reduce((sum, count) => sum + count, 0)
  return [...world.answers].map(([group, counts]) => row(group, counts)).concat(row(`total ${tried}`, total)).join(
    "\n"
  )
}

const explain = (problems: ReadonlyArray<string>) =>
  `FUZZ_SEED=${seed}, ${problems.length} failed:\n\n${problems.join("\n\n")}`

describe(`fuzzing with FUZZ_SEED=${seed}`, () => {
  it("accepts valid requests, and refuses an invalid one for the rule that it breaks", async () => {
    const problems = (await Effect.runPromise(Effect.forEach(rules, check, { concurrency: 16 }))).flat()
    assert.strictEqual(problems.length, 0, explain(problems))
    assert.strictEqual(await world.tasksTakenByRefusedCreates(), 0)
    // oxlint-disable-next-line no-console -- the result of a long run
    if (cases > 5000) console.log(`FUZZ_SEED=${seed}, ${rules.length} rules\n${table()}`)
  }, 3_600_000)

  it("passes input, tool results, state and turns on unchanged", async () => {
    const result = await Effect.runPromise(
      Arbitrary.checkEffect(
        stories,
        (story) =>
          Effect.as(Effect.tryPromise({ try: () => runStory(world, story), catch: (error) => String(error) }), true),
        { runs: Math.ceil(cases / 50), seed, size: 8, concurrency: 8, maxShrinks: 40 }
      )
    )
    const failure = Arbitrary.formatCheckFailure(result)
    assert.isUndefined(failure, explain([failure ?? ""]))
  }, 3_600_000)

  it("leaves a working service without failed requests in its log", async () => {
    const token = await mint("fuzz-after")
    const { status } = await world.service.create(token, "afterwards")
    assert.strictEqual(status, 201)
    assert.notMatch(world.service.output, /a request failed/)
  })
})
