/**
 * Valid requests generated from the schemas, and invalid ones that break one rule each. `FUZZ_CASES` sets their number, and
 * `FUZZ_SEED` chooses others, as each night does. A failure prints the rule, the smallest request that shows it, and the seed.
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

const seed = process.env["FUZZ_SEED"] ?? "1"
const cases = Number(process.env["FUZZ_CASES"] ?? 300)
const rules = [...fieldRules, ...textRules, ...queryRules, ...headerRules, ...pathRules]
const totalWeight = rules.reduce((sum, { weight = 1 }) => sum + weight, 0)

/** At least one run per rule, even with few cases. */
const runsOf = ({ weight = 1 }: Rule) => Math.max(1, Math.round(cases * weight / totalWeight))

const world = await use(World.open())

/** Milliseconds for the search for a smaller request. Without it 40 timeouts of a service that hangs would take eleven minutes. */
const shrinkTime = 20_000

/** Limits the time of shrinking: from `shrinkTime` after the first failure on nothing is tried, and the smallest failure so far stands. */
const makeLimit = () => {
  let end = Infinity
  return (tried: () => Promise<string | undefined>) =>
    Effect.suspend(() =>
      performance.now() > end ? Effect.succeed(true) : Effect.flatMap(Effect.promise(tried), (problem) => {
        if (problem === undefined) return Effect.succeed(true)
        end = Math.min(end, performance.now() + shrinkTime)
        return Effect.fail(problem)
      })
    )
}

/** The failure, and the coordinates of its request, which a long request must not cut off. */
const describeFailure = <A, E>(result: Arbitrary.CheckResult<A, E>): string | undefined => {
  const failure = Arbitrary.formatCheckFailure(result)
  const replay = result._tag === "Falsified" ? `Replay: ${result.replay}\n` : ""
  return failure === undefined ? undefined : replay + failure.slice(0, 2000)
}

/** Checks a rule with requests of growing size. Returns the problem with the smallest request that shows it, if any. */
const check = (limited: ReturnType<typeof makeLimit>) => (rule: Rule) =>
  Effect.map(
    Arbitrary.checkEffect(
      rule.attempts,
      (attempt) => limited(() => world.try(rule.group, attempt)),
      { runs: runsOf(rule), seed: `${seed} ${rule.name}`, size: 6, maxShrinks: 40 }
    ),
    (result) => {
      const failure = describeFailure(result)
      return failure === undefined ? [] : [`${rule.group}: ${rule.name}\n${failure}`]
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
    const problems = (await Effect.runPromise(Effect.forEach(rules, check(makeLimit()), { concurrency: 16 }))).flat()
    assert.strictEqual(problems.length, 0, explain(problems))
    assert.strictEqual(await world.tasksTakenByRefusedCreates(), 0)
    // oxlint-disable-next-line no-console -- the result of a long run
    if (cases > 5000) console.log(`FUZZ_SEED=${seed}, ${rules.length} rules\n${table()}`)
  }, 3_600_000)

  it("passes input, tool results, state and turns on unchanged", async () => {
    const limited = makeLimit()
    const result = await Effect.runPromise(
      Arbitrary.checkEffect(
        stories,
        (story) => limited(() => runStory(world, story).then(() => undefined, String)),
        { runs: Math.ceil(cases / 50), seed, size: 8, concurrency: 8, maxShrinks: 40 }
      )
    )
    const failure = describeFailure(result)
    assert.isUndefined(failure, explain([failure ?? ""]))
  }, 3_600_000)

  it("leaves a working service without failed requests in its log", async () => {
    const token = await mint("fuzz-after")
    const { status } = await world.service.create(token, "afterwards")
    assert.strictEqual(status, 201)
    assert.notMatch(world.service.output, /a request failed/)
  })
})
