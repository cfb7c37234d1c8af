/** `test/examples/chat` in a real browser, with a core of the core package that says what the test tells it. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as path from "node:path"
import type { Page } from "playwright-core"
import { assert, describe, expect, it, onTestFinished } from "vitest"
import { type Run, serveCore } from "../../src/http/client/Core.ts"
import { hasBrowser, launch } from "../kit/Browser.ts"
import { eventually, freePort, internalToken, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const main = path.resolve(import.meta.dirname, "../examples/chat/server.ts")

/** A run that says one word after another, until there is no next one. */
class Speaker {
  readonly run: Run
  #say: (word: string | undefined) => void = () => {}
  #next = this.#wait()

  constructor(run: Run) {
    this.run = run
  }

  #wait() {
    return new Promise<string | undefined>((resolve) => {
      this.#say = resolve
    })
  }

  say(word?: string) {
    this.#say(word)
  }

  async speak() {
    const stopped = once(this.run.signal, "abort").then(() => undefined)
    for (;;) {
      const word = await Promise.race([this.#next, stopped])
      if (word === undefined) return
      this.#next = this.#wait()
      this.run.text(word)
    }
  }
}

describe.skipIf(!hasBrowser)("the example of a chat", () => {
  it("shows words as they are written, goes on after a reload, and stops the run", async () => {
    const speakers: Array<Speaker> = []
    const core = await use(
      serveCore({
        port: 0,
        token: "core-token",
        eventToken: internalToken,
        handleSignals: false,
        run: (run) => {
          const speaker = new Speaker(run)
          speakers.push(speaker)
          return speaker.speak()
        }
      }),
      onTestFinished
    )
    const port = await freePort()
    const origin = `http://127.0.0.1:${port}`
    const { service } = await use(
      startSystem({ CORE_URL: core.url, CORE_TOKEN: "core-token", CORS_ORIGINS: origin }),
      onTestFinished
    )
    const token = await mint("chatter")
    const server = spawn(process.execPath, [main], {
      env: {
        PATH: process.env["PATH"],
        PORT: String(port),
        TASK_SERVICE_URL: service.url,
        TASK_SERVICE_TOKEN: token
      },
      stdio: ["ignore", "pipe", "inherit"]
    })
    onTestFinished(() => void server.kill())
    await once(server.stdout, "data")
    const browser = await use(launch(), onTestFinished)
    const page: Page = await browser.newPage()
    const errors: Array<string> = []
    page.on("pageerror", ({ message }) => errors.push(message))
    const speakerOf = async (count: number) =>
      (await eventually(async () => speakers[count - 1], (speaker) => speaker !== undefined))!
    const send = async (text: string) => {
      await page.getByLabel("Message").fill(text)
      await page.getByRole("button", { name: "Send" }).click()
    }
    const shows = (...texts: ReadonlyArray<string>) =>
      expect.poll(() => page.locator(".message").allTextContents()).toEqual(texts)

    await page.goto(origin)
    await send("Why?")
    const speaker = await speakerOf(1)
    assert.strictEqual(speaker.run.prompt, "Why?")
    speaker.say("One ")
    await shows("Why?", "One ")
    speaker.say("two 😀 ")
    await shows("Why?", "One two 😀 ")
    await page.reload()
    await shows("Why?", "One two 😀 ")
    // The words that are written while the page is away.
    await page.goto("about:blank")
    speaker.say("three ")
    await page.goBack()
    await shows("Why?", "One two 😀 three ")
    speaker.say("four")
    await shows("Why?", "One two 😀 three four")
    speaker.say()
    await page.getByRole("button", { name: "Send" }).waitFor()
    await shows("Why?", "One two 😀 three four")

    await send("And then?")
    const second = await speakerOf(2)
    assert.deepStrictEqual(second.run.messages.map(({ content }) => content), [
      "Why?",
      "One two 😀 three four",
      "And then?"
    ])
    second.say("So much ")
    await shows("Why?", "One two 😀 three four", "And then?", "So much ")
    await page.getByRole("button", { name: "Stop" }).click()
    await eventually(async () => second.run.signal.aborted, (isAborted) => isAborted)
    await page.getByRole("button", { name: "Send" }).waitFor()
    assert.strictEqual((await service.get(token, second.run.taskId)).body.status, "canceled")
    await shows("Why?", "One two 😀 three four", "And then?", "So much ")
    assert.strictEqual(speakers.length, 2)
    assert.deepStrictEqual(errors, [])
  }, 120_000)
})
