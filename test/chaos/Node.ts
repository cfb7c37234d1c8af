/** A process of the service with its own proxy to the shared Postgres. */
import { freePort, Service } from "../kit/Service.ts"
import { Proxy } from "./Proxy.ts"

export type Settings = Readonly<Record<string, string>>

export class Node {
  readonly name: string
  readonly port: number
  readonly proxy: Proxy
  readonly #settings: Settings
  #service: Service | undefined

  private constructor(name: string, port: number, proxy: Proxy, settings: Settings) {
    this.name = name
    this.port = port
    this.proxy = proxy
    this.#settings = settings
  }

  static async make(name: string, port: number, databaseUrl: string, settings: Settings) {
    const proxy = await Proxy.before(databaseUrl)
    return new Node(name, port, proxy, {
      ...settings,
      DATABASE_URL: proxy.urlOf(databaseUrl),
      CLUSTER: "on",
      CLUSTER_HOST: "127.0.0.1",
      CLUSTER_PORT: String(await freePort())
    })
  }

  async start(settings: Settings = {}) {
    this.#service = await Service.start({ ...this.#settings, ...settings }, this.port)
  }

  /** Starts a process as on another machine, with the identity of this node. */
  startTwin() {
    return Service.start(this.#settings, undefined, ["--import", "./test/chaos/elsewhere.ts", "src/runtime/Main.ts"])
  }

  signal(signal: NodeJS.Signals) {
    this.#service?.signal(signal)
  }

  /** Returns the exit code; null after a signal. */
  async stop(signal: NodeJS.Signals) {
    await this.#service?.stop(signal)
    return this.#service?.process.exitCode ?? null
  }

  isReady() {
    const signal = AbortSignal.timeout(1000)
    return fetch(`http://127.0.0.1:${this.port}/readyz`, { signal }).then(({ status }) => status === 200, () => false)
  }

  /** The last output of the process. */
  get lastWords() {
    return this.#service?.output.slice(-4000) ?? ""
  }

  async close() {
    await this.stop("SIGKILL")
    await this.proxy.close()
  }
}
