/** `@copilotkit/aimock` as a separate process: a model provider that responds by fixtures and records requests. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import * as path from "node:path"
import { removeDirectory, temporaryDirectory } from "./directories.ts"
import { eventually, freePort } from "./Service.ts"

const cli = path.resolve(import.meta.dirname, "../../node_modules/@copilotkit/aimock/dist/cli.js")

export interface SentMessage {
  readonly role: string
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read messages of every shape
  readonly content: any
  readonly tool_calls?: ReadonlyArray<{ readonly id: string; readonly function: { readonly name: string } }>
  readonly tool_call_id?: string
}

export interface SentRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: {
    readonly model: string
    readonly messages: ReadonlyArray<SentMessage>
    readonly tools?: ReadonlyArray<{ readonly function: { readonly name: string; readonly parameters: unknown } }>
    readonly [field: string]: unknown
  }
  readonly response: { readonly status: number }
}

export class ModelMock {
  readonly process: ChildProcess
  readonly origin: string
  readonly #directory: string
  #output = ""

  private constructor(process: ChildProcess, origin: string, directory: string) {
    this.process = process
    this.origin = origin
    this.#directory = directory
    process.stdout?.on("data", (chunk) => this.#output += chunk)
    process.stderr?.on("data", (chunk) => this.#output += chunk)
  }

  /** Starts the mock with fixtures; requests that match none are rejected. */
  static async start(fixtures: ReadonlyArray<object>, options: ReadonlyArray<string> = []) {
    const directory = temporaryDirectory()
    const port = await freePort()
    fs.writeFileSync(path.join(directory, "fixtures.json"), JSON.stringify({ fixtures }))
    const child = spawn(
      process.execPath,
      [cli, "--port", String(port), "--fixtures", directory, "--strict", "--log-level", "warn", ...options],
      { env: { PATH: process.env["PATH"] } }
    )
    const mock = new ModelMock(child, `http://127.0.0.1:${port}`, directory)
    const isUp = () => fetch(`${mock.origin}/__aimock/journal`).then(({ ok }) => ok, () => false)
    await eventually(isUp, (up) => up || child.exitCode !== null)
    if (child.exitCode !== null) throw new Error(`aimock exited with ${child.exitCode}:\n${mock.#output}`)
    return mock
  }

  get url() {
    return `${this.origin}/v1`
  }

  /** The recorded requests, oldest first. */
  async requests(): Promise<ReadonlyArray<SentRequest>> {
    const answer = await (await fetch(`${this.origin}/__aimock/journal`)).json()
    return Array.isArray(answer) ? answer : answer.entries
  }

  async control(method: string, address: string, body?: object) {
    const response = await fetch(`${this.origin}/__aimock/${address}`, {
      method,
      headers: { "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    if (!response.ok) throw new Error(`aimock: ${response.status} ${await response.text()}`)
  }

  async close() {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const exited = once(this.process, "exit")
      this.process.kill()
      await exited
    }
    removeDirectory(this.#directory)
  }
}
