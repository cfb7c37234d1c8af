import { defineConfig } from "vitest/config"

/** `unit` runs in memory under TestClock; `integration` runs on a real Postgres that `test/kit/globalSetup.ts` starts once. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/**/*.test.{ts,tsx}"],
          exclude: ["test/integration/**", "test/attack/**"],
          testTimeout: 60_000
        }
      },
      {
        test: {
          name: "integration",
          include: ["test/integration/**/*.test.ts", "test/attack/**/*.test.ts"],
          globalSetup: ["test/kit/globalSetup.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000
        }
      }
    ]
  }
})
