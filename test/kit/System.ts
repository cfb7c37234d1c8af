/** The system of most integration tests: the service as a process on its own database, with a scripted core. */
import * as fs from "node:fs"
import { type OpenDatabase, openDatabase } from "./databases.ts"
import { ScriptedCore } from "./ScriptedCore.ts"
import { Service } from "./Service.ts"

export interface System {
  readonly database: OpenDatabase
  readonly core: ScriptedCore
  readonly service: Service
  /** Settings of every node of the system. */
  readonly settings: Readonly<Record<string, string>>
  readonly runOf: ScriptedCore["run"]
  readonly close: () => Promise<void>
}

let shared: Promise<System> | undefined

/**
 * The system of this worker for suites whose users are their own, and that neither stop or configure its service nor count what it does.
 * It ends with the worker.
 */
export const sharedSystem = () =>
  shared ??= startSystem({ WEBHOOK_ALLOW_PRIVATE: "true" }).then((system) => {
    system.service.isShared = true
    // `globalSetup` ends it: a worker may be killed.
    fs.appendFileSync(process.env["TEST_SHARED"] ?? "", `${system.service.process.pid}\n`)
    return system
  })

/** `main` is the file that Node runs: the service or a variant of it. */
export const startSystem = async (
  more: Readonly<Record<string, string>> = {},
  main?: ReadonlyArray<string>
): Promise<System> => {
  const database = await openDatabase()
  const core = await new ScriptedCore().listen()
  const settings = { DATABASE_URL: database.url, CORE_URL: core.url, ...more }
  const service = await Service.start(settings, undefined, main)
  return {
    database,
    core,
    service,
    settings,
    runOf: (uuid, earlier) =>
      core.run(uuid, earlier).catch((error) => {
        throw new Error(`no run of the task ${uuid}: ${error.message}\n${service.output}`)
      }),
    close: async () => {
      await service.stop()
      await core.close()
      await database.close()
    }
  }
}
