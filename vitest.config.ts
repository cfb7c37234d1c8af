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

/** Suites that start several services or commands, or wait for real time-outs: most of the time of all suites on Postgres. */
const slowSuites: Readonly<Record<string, string>> = {
  "":
    "Alone,Cluster,Cors,DatabaseMonitor,DatabaseUrls,DeafNode,DevelopmentTokens,Home,IdleNode,InternalPort,KeyRotation,LiveNodes,Logs,"
    + "Membership,NoBackend,Observability,OpenSnapshot,PathSpelling,Pipelines,Poolers,Proxies,Queue,QueueNodes,Readiness,"
    + "RemovedExtensions,Restart,SessionSettings,Sockets,StartErrors,Storage,Tokens,Upgrade,Uploads,Workers",
  "endpoints/": "EndpointCommands,EndpointFaults,EndpointSnapshot,Receivers",
  "openai/": "OpenAiCors,OpenAiNodes,OpenAiRequests,OpenAiStreams",
  "operator/":
    "Bulk,LostCore,OperatorCluster,OperatorCommands,OperatorDocument,OperatorQueue,OperatorSession,StoredBytes,Users",
  "schedules/": "Firing,ScheduleKit,ScheduleSnapshot",
  "usage/": "UsageCli,UsageSnapshot"
}

/** Every change passes them in `.ci/run`; at a desk, `npm test` runs faster ones of the same subjects. */
const slow = Object.entries(slowSuites).map(([folder, names]) => `test/integration/${folder}{${names}}.test.ts`)

/**
 * A suite of processes that fails once in CI is tried once more, and the report says so (`retry x1`): beside other work on two cores one of
 * a thousand fails by its timing. Such a test is a fault to mend. At a desk nothing is tried again.
 */
const retry = process.env["CI"] === undefined ? 0 : 1

/** Suites of what a user copies or installs: examples and clients. */
const published = [
  "test/integration/{ClientPackage,CoreAdapters,Cores,ExampleCores,Examples,PythonClient,PythonCores,TenMinutes}.test.ts"
]

/** `npm run test:all`: `slow` and `published` are part of `integration`, so that what waits runs beside what computes. */
const isTogether = process.env["TESTS"] === "all"

const timeouts = { testTimeout: 60_000, hookTimeout: 60_000 }

/** A project of suites that use Postgres and processes. */
const processes = (name: string, include: ReadonlyArray<string>, more: object = {}) => ({
  test: {
    name,
    retry,
    include: [...include],
    globalSetup: ["test/kit/globalSetup.ts"],
    setupFiles: ["test/kit/services.setup.ts"],
    // Modules are loaded once per worker.
    isolate: false,
    ...timeouts,
    ...more
  }
})

/**
 * `unit` runs in memory under TestClock; all others run on a real Postgres that `test/kit/globalSetup.ts` starts once for a run. `unit`
 * and `integration` are `npm test`.
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
          isolate: false,
          ...timeouts
        }
      },
      isTogether
        ? processes("integration", ["test/integration/**/*.test.ts", ...published], { exclude: [...long, ...browser] })
        : processes("integration", ["test/integration/**/*.test.ts"], {
          exclude: [...long, ...slow, ...browser, ...published]
        }),
      processes("slow", slow),
      // A page shows what was done when it has been drawn, which other work may delay.
      processes("browser", browser, { expect: { poll: { timeout: 15_000 } } }),
      processes("published", published),
      processes("long", long, { retry: 0, isolate: true, fileParallelism: false })
    ]
  }
})
