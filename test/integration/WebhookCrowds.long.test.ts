/** Targets that hang or refuse connections do not delay the webhooks of others. */
import { assert, describe, it, onTestFinished } from "vitest"
import { enqueueMany, latencyOf, openHole, openTarget } from "../attack/kit/webhookCrowd.ts"
import { eventually, Service } from "../kit/Service.ts"
import { quantile } from "../kit/statistics.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const known = "127.1.0.1"

const start = async () => {
  const target = await use(openTarget(), onTestFinished)
  const system = await use(startSystem({ WEBHOOK_ALLOW_PRIVATE: "true", MAX_ACTIVE_TASKS: "1000" }), onTestFinished)
  const measure = async (service: Service, sub: string, addresses: ReadonlyArray<string>) => {
    const found: Array<number> = []
    for (const address of addresses) found.push(await latencyOf(system, service, target, sub, address))
    return { worst: Math.max(...found), p99: quantile(found, 0.99) }
  }
  return { ...system, system, measure }
}

const repeat = (count: number, addressOf: (n: number) => string) =>
  Array.from({ length: count }, (_, n) => addressOf(n))

describe("webhooks", () => {
  it(
    "of a user to 150 hanging targets delay neither new targets of another user nor known ones, also after kill −9",
    async () => {
      const hole = await use(openHole(), onTestFinished)
      const { database, measure, service, settings } = await start()
      await measure(service, "other", [known])
      await database.query(enqueueMany({ deliveries: 3000, targets: 150, sub: "hostile", port: hole.port }))
      const isFull = async () => {
        const [row] = await database.query<{ readonly count: number }>(
          `SELECT count(*)::int AS count FROM webhook_deliveries WHERE sending`
        )
        return row?.count ?? 0
      }
      await eventually(isFull, (count) => count > 100)
      const before = await measure(service, "other", repeat(30, () => known))
      const fresh = await measure(service, "other", repeat(30, (n) => `127.2.0.${n + 1}`))
      await service.stop("SIGKILL")
      const restarted = await Service.start(settings)
      try {
        await eventually(isFull, (count) => count > 100)
        const after = await measure(restarted, "other", repeat(30, () => known))
        const freshAfter = await measure(restarted, "other", repeat(30, (n) => `127.3.0.${n + 1}`))
        for (const { worst } of [before, fresh, after, freshAfter]) assert.isBelow(worst, 2000)
      } finally {
        await restarted.stop()
      }
    },
    180_000
  )

  it("20,000 of them to 2,000 refusing targets do not delay known targets, of whichever user", async () => {
    const { database, measure, service } = await start()
    await measure(service, "other", [known])
    await measure(service, "hostile", [known])
    await database.query(enqueueMany({ deliveries: 20_000, targets: 2000, sub: "hostile" }))
    const ofOther = await measure(service, "other", repeat(100, () => known))
    const own = await measure(service, "hostile", repeat(100, () => known))
    const fresh = await measure(service, "other", repeat(30, (n) => `127.4.0.${n + 1}`))
    for (const { p99 } of [ofOther, own, fresh]) assert.isBelow(p99, 2000)
  }, 180_000)
})
