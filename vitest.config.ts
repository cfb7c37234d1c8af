import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"

// Saves 0.4 s of CPU time in each worker and in each process that a test starts.
process.env["NODE_COMPILE_CACHE"] ??= `${import.meta.dirname}/node_modules/.cache/node`

/** Most suites wait for processes and the database: two cores are busy with four of them. */
const maxWorkers = Math.max(4, availableParallelism() - 1)

/** Suites that take half a minute, and those that measure a service under load. They run alone. */
const long = ["test/**/*.long.test.ts", "test/attack/**/*.test.ts"]

/** Suites that look at pages in Chromium. */
const browser = ["test/integration/console/**/*.test.ts", "test/integration/Docs.test.ts"]

/** Suites of what a user copies or installs: examples and clients. */
const published = [
  "test/integration/{ClientPackage,ExampleCores,Examples,PythonClient}.test.ts",
  "test/golden/EffectTypes.test.ts"
]

/**
 * `unit` runs in memory under TestClock; `integration` runs on a real Postgres that `test/kit/globalSetup.ts` starts once, and so
 * do `browser`, `published` and `long`, which are not part of `npm test`.
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
          include: ["test/integration/**/*.test.ts"],
          exclude: [...long, ...browser, ...published],
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
          include: browser,
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
