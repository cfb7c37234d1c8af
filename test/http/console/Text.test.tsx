import type { ComponentChildren } from "preact"
import { renderToString } from "preact-render-to-string"
import { assert, describe, it } from "vitest"
import { Values } from "../../../src/http/console/components/JsonTree.tsx"
import { Markdown } from "../../../src/http/console/components/Text.tsx"
import { config } from "../../../src/http/console/config.ts"
import { hostileTexts } from "../../kit/console/hostile.ts"
import { cpuOf } from "../../kit/cpu.ts"

const render = (node: ComponentChildren) => renderToString(<>{node}</>)
const markdown = (text: string) => render(<Markdown text={text} />)

const allowed = new Set([
  "div",
  "p",
  "pre",
  "code",
  "span",
  "strong",
  "em",
  "del",
  "br",
  "hr",
  "a",
  "bdi",
  "ul",
  "ol",
  "li",
  "blockquote",
  "table",
  "thead",
  "tbody",
  "tr",
  "th",
  "td",
  "button"
])

/** Every element, with its attributes, that the text has become. */
const elementsOf = (html: string) =>
  [...html.matchAll(/<([a-z0-9]+)((?:\s[^>]*)?)>/g)].map(([, name = "", attributes = ""]) => ({ name, attributes }))

describe("Markdown", () => {
  it("becomes elements", () => {
    assert.strictEqual(
      markdown("a **b** `c`"),
      "<div class=\"prose\"><p dir=\"auto\"><span>a </span><strong><span>b</span></strong><span> </span><code dir=\"ltr\">c</code></p></div>"
    )
    assert.include(markdown("3. x\n4. y"), "<ol start=\"3\" dir=\"auto\"><li>")
    assert.include(markdown("| a |\n| -: |\n| 1 |"), "<td class=\"right\">")
    assert.include(markdown("- [x] done"), "☑")
    assert.include(markdown("a < b & c"), "a &lt; b &amp; c")
  })

  it("gives each block its direction, and keeps the order of a code in text from right to left", () => {
    const html = markdown("تم رد مبلغ الطلب 2026-11-B-0417 اليوم\n\nAll done: 2026-11-B-0417")
    assert.include(html, "<bdi dir=\"ltr\">2026-11-B-0417</bdi>")
    assert.strictEqual(html.match(/<p dir="auto">/g)?.length, 2)
    assert.include(html, "All done: 2026-11-B-0417</span>")
    assert.isBelow(cpuOf(() => markdown(`\u0627 ${"a".repeat(90_000)}`)), 500)
  })

  it("shows the host of a link, which opens without a reference to this page", () => {
    const html = markdown("[bank](https://evil.example/login?x=1)")
    assert.include(
      html,
      "href=\"https://evil.example/login?x=1\" rel=\"noopener noreferrer nofollow\" target=\"_blank\""
    )
    assert.include(html, "<span class=\"host\">evil.example</span>")
    assert.include(markdown("<a@b.example>"), "href=\"mailto:a@b.example\"")
    assert.include(markdown("![logo](https://evil.example/x.png)"), "<a href=\"https://evil.example/x.png\"")
  })

  it("begins at the right where its script does, and keeps codes in their order", () => {
    for (const words of ["الطلب", "ההזמנה"]) {
      const html = markdown(`**${words}** 2026-11-B-0417 ${words}`)
      assert.match(html, /^<div class="prose" dir="rtl">/)
      assert.include(html, "<bdi dir=\"ltr\">2026-11-B-0417</bdi>")
    }
    for (const text of ["Order الطلب", "订单 2026-11-B-0417", "2026", ""]) {
      assert.match(markdown(text), /^<div class="prose">/, text)
    }
  })

  it("offers an image of an origin that the operator names, and loads none by itself", () => {
    const [named, other] = ["![logo](https://cdn.example/x.png)", "![logo](https://cdn.example.evil.example/x.png)"]
    assert.notInclude(markdown(named), "Show the image")
    config.value = { ...config.value, image_origins: ["https://cdn.example"] }
    try {
      assert.include(markdown(named), "Show the image")
      assert.notInclude(markdown(named), "<img")
      assert.notInclude(markdown(other), "Show the image")
      assert.notInclude(markdown("![x](http://cdn.example/x.png)"), "Show the image")
    } finally {
      const { image_origins: _, ...before } = config.value
      config.value = before
    }
  })

  it("never becomes any other element, attribute or address, whatever the text is", () => {
    for (const text of hostileTexts) {
      for (const { attributes, name } of elementsOf(markdown(text))) {
        assert.isTrue(allowed.has(name), `${name} from ${text.slice(0, 100)}`)
        assert.notMatch(attributes, /\s(on\w+|style|src|srcdoc|formaction)=/i, text.slice(0, 100))
        const [, address] = /href="([^"]*)"/.exec(attributes) ?? []
        if (address !== undefined) assert.match(address, /^(https?:\/\/|mailto:)/, text.slice(0, 100))
      }
    }
  })

  it("takes less than half a second for any of them", () => {
    for (const text of hostileTexts) assert.isBelow(cpuOf(() => markdown(text)), 500, text.slice(0, 60))
  })

  it("cuts a long text and offers all of it", () => {
    const html = markdown("x".repeat(150_000))
    assert.isBelow(html.length, 101_000)
    assert.include(html, "Show all 150,000 characters")
  })
})

describe("Values", () => {
  const shown = (value: object) => render(<Values value={value} />).replaceAll(/<[^>]+>/g, "|").replaceAll(/\|+/g, "|")

  it("shows an object as names and values, also within another one", () => {
    assert.strictEqual(
      shown({ order_id: 2026, to: { city: "Uppsala" }, tags: ["a", "b"], note: null, urgent: false }),
      "|order id|2026|to|city|Uppsala|tags|a|, |b|note|–|urgent|false|"
    )
  })

  it("leaves what is deep or long to a tree", () => {
    assert.include(render(<Values value={{ a: { b: { c: { d: 1 } } } }} />), "json-toggle")
    // Closed, so that what comes after a long list is in view.
    assert.include(render(<Values value={{ list: Array.from({ length: 21 }, () => 1) }} />), "aria-expanded=\"false\"")
    const many = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`name${index}`, index]))
    assert.notInclude(render(<Values value={many} />), "<dl")
  })
})
