/** What every screen must be: without violations of WCAG 2.2 AA, by axe, and no wider than its window. */
import axe from "axe-core"
import { eventually } from "../Service.ts"
import type { ConsolePage } from "./ConsolePage.ts"

/** Waits until the screen has its data. */
export const settled = async ({ page }: ConsolePage) => {
  await page.getByRole("heading", { level: 1 }).waitFor()
  await eventually(() => page.locator(".skeleton").count(), (count) => count === 0)
  await page.evaluate(() => document.fonts.ready)
}

interface Found {
  readonly id: string
  readonly nodes: ReadonlyArray<{ readonly html: string; readonly any: ReadonlyArray<{ readonly message: string }> }>
}

/** Trusted Types refuse a script element, so the script is evaluated. */
export const violationsOf = async ({ page }: ConsolePage) => {
  await page.evaluate(`globalThis.axe ?? (() => { ${axe.source} })(); undefined`)
  const found = await page.evaluate<ReadonlyArray<Found>>(
    `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] }).then(({ violations }) => violations)`
  )
  return found.map(({ id, nodes }) =>
    `${id}: ${nodes.map(({ any, html }) => `${html.slice(0, 150)} ${any[0]?.message ?? ""}`).join(" | ")}`
  )
}

export const overflowOf = ({ page }: ConsolePage) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
