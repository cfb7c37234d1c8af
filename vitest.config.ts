import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"

// Saves 0.4 s of CPU time in each worker and in each process that a test starts.
process.env["NODE_COMPILE_CACHE"] ??= `${import.meta.dirname}/node_modules/.cache/node`

/** Most suites wait for processes and the database: two cores are busy with four of them. */
const maxWorkers = Math.max(4, availableParallelism() - 1)

/** Suites that measure, or take half a minute. They run alone, at night. */
const long = ["test/**/*.long.test.ts", "test/attack/**/*.test.ts"]

/** Suites that look at pages in Chromium. */
const browser = ["test/integration/console/**/*.test.ts", "test/integration/{Chat,Docs}.test.ts"]

/**
 * Suites that start many processes or wait for real time-outs: half of the time of all suites on Postgres. Every change passes them in
 * `.ci/run`. What they prove in detail, faster suites touch: Restart, Outage, StartWaits, Cli, Service, CommitBatches.
 */
const slow = [
  `test/integration/{${
    [
      "Alone",
      "Cluster",
      "DatabaseMonitor",
      "DatabaseUrls",
      "DeafNode",
      "DevelopmentTokens",
      "Home",
      "IdleNode",
      "KeyRotation",
      "Logs",
      "Membership",
      "Observability",
      "OpenSnapshot",
      "Pipelines",
      "Poolers",
      "Readiness",
      "SessionSettings",
      "StartErrors",
      "Uploads"
    ].join(",")
  }}.test.ts`,
  "test/integration/operator/{LostCore,OperatorCluster}.test.ts",
  "test/integration/schedules/ScheduleKit.test.ts"
]

/**
 * A suite of processes that fails once in CI is tried once more, and the report says so (`retry x1`): beside other work on two cores one of
 * a thousand fails by its timing. Such a test is a fault to mend. At a desk nothing is tried again.
 */
const retry = process.env["CI"] === undefined ? 0 : 1

/** Suites of what a user copies or installs: examples and clients. */
const published = [
  "test/integration/{ClientPackage,CoreAdapters,Cores,ExampleCores,Examples,PythonClient,TenMinutes}.test.ts",
  "test/golden/EffectTypes.test.ts"
]

/**
 * `unit` runs in memory under TestClock; `integration` runs on a real Postgres that `test/kit/globalSetup.ts` starts once, and so
 * do `slow`, `browser`, `published` and `long`, which are not part of `npm test`.
 */
export default defineConfig({
  test: {
    maxWorkers,
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/**/*.test.{ts,tsx}"],
          exclude: ["test/integration/**", ...long, ...published],
          // Modules are loaded once per worker.
          isolate: false,
          testTimeout: 60_000
        }
      },
      {
        test: {
          name: "integration",
          retry,
          include: ["test/integration/**/*.test.ts"],
          exclude: [...long, ...slow, ...browser, ...published],
          globalSetup: ["test/kit/globalSetup.ts"],
          setupFiles: ["test/kit/failureLogs.ts"],
          isolate: false,
          testTimeout: 60_000,
          hookTimeout: 60_000
        }
      },
      {
        test: {
          name: "slow",
          retry,
          include: slow,
          globalSetup: ["test/kit/globalSetup.ts"],
          setupFiles: ["test/kit/failureLogs.ts"],
          isolate: false,
          testTimeout: 60_000,
          hookTimeout: 60_000
        }
      },
      {
        test: {
          name: "browser",
          retry,
          include: browser,
          // A page shows what was done when it has been drawn, which other work may delay.
          expect: { poll: { timeout: 15_000 } },
          globalSetup: ["test/kit/globalSetup.ts"],
          setupFiles: ["test/kit/failureLogs.ts"],
          isolate: false,
          testTimeout: 60_000,
          hookTimeout: 60_000
        }
      },
      {
        test: {
          name: "published",
          retry,
          include: published,
          globalSetup: ["test/kit/globalSetup.ts"],
          setupFiles: ["test/kit/failureLogs.ts"],
          isolate: false,
          testTimeout: 60_000,
          hookTimeout: 60_000
        }
      },
      {
        test: {
          name: "long",
          include: long,
          globalSetup: ["test/kit/globalSetup.ts"],
          setupFiles: ["test/kit/failureLogs.ts"],
          fileParallelism: false,
          testTimeout: 60_000,
          hookTimeout: 60_000
        }
      }
    ]
  }
})
