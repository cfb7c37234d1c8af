/** The console in a browser. It records every request, every error and every violation of the page's policy. */
import type { Browser, BrowserContextOptions, Page } from "playwright-core"
import { assert, onTestFinished } from "vitest"
import { mint } from "../Service.ts"
import { use } from "../suite.ts"

/** A response with an error status is also reported as an error of the page. */
const isStatus = (text: string) => text.startsWith("Failed to load resource: the server responded with a status of")

export class ConsolePage {
  readonly page: Page
  readonly url: string
  readonly requests: Array<string> = []
  readonly errors: Array<string> = []
  dialogs = 0

  private constructor(page: Page, url: string) {
    this.page = page
    this.url = url
    page.on("request", (request) => this.requests.push(request.url()))
    page.on("pageerror", ({ message }) => this.errors.push(message))
    page.on(
      "console",
      (message) => message.type() === "error" && !isStatus(message.text()) && this.errors.push(message.text())
    )
    page.on("dialog", (dialog) => {
      this.dialogs++
      void dialog.dismiss()
    })
  }

  static async open(browser: Browser, url: string, options: BrowserContextOptions = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
    return new ConsolePage(await context.newPage(), url)
  }

  static async logIn(browser: Browser, url: string, token: string, options: BrowserContextOptions = {}) {
    const opened = await ConsolePage.open(browser, url, options)
    await opened.goto("/login")
    await opened.logIn(token)
    await opened.heading("Tasks")
    return opened
  }

  /** A user whose page closes at the end of the test. */
  static async user(browser: Browser, url: string, sub: string) {
    const token = await mint(sub)
    const opened = await use(ConsolePage.logIn(browser, url, token), onTestFinished)
    return { token, opened, page: opened.page }
  }

  goto(path: string) {
    return this.page.goto(`${this.url}/console${path}`)
  }

  async logIn(token: string) {
    await this.page.getByRole("textbox", { name: "Token" }).fill(token)
    await this.page.getByLabel(/Keep in this tab/).check()
    await this.page.getByRole("button", { name: /^(Log in|Continue)$/ }).first().click()
  }

  /** On any screen of operators, which shows the log-in until there is a session. */
  async logInAsOperator(token: string) {
    await this.page.getByRole("textbox", { name: "Operator token" }).fill(token)
    await this.button("Log in").click()
    await this.page.getByRole("navigation", { name: "Main" }).waitFor()
  }

  heading(name: string | RegExp) {
    return this.page.getByRole("heading", { name, level: 1 }).waitFor()
  }

  /** The screen of a task of the user, whose heading is what it asks. */
  task() {
    return this.page.getByRole("region", { name: "Request" }).locator("code[title]").waitFor()
  }

  button(name: string | RegExp) {
    return this.page.getByRole("button", { name })
  }

  /** Nothing was loaded from elsewhere, and nothing went wrong. */
  assertClean() {
    assert.deepStrictEqual(this.errors, [])
    assert.strictEqual(this.dialogs, 0)
    assert.deepStrictEqual(
      this.requests.filter((url) => !url.startsWith(`${this.url}/`) && !url.startsWith("data:image/svg")),
      []
    )
  }

  close() {
    return this.page.context().close()
  }
}
