import { assert, describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import * as Proxies from "../../../src/runtime/node/Proxies.ts"

const http = Proxies.parseProxy("http://a.example:1")
const https = Proxies.parseProxy("http://b.example:2")

/** Which proxy a URL uses with a value of NO_PROXY. */
const proxyOf = (url: string, noProxy = "") => {
  const exceptions = Proxies.parseExceptions(noProxy)
  return Proxies.find({ http, https, exceptions }, Proxies.targetOf(new URL(url)))
}

describe("a proxy", () => {
  it.each([
    ["http://proxy.example:3128", "http://proxy.example:3128", undefined],
    ["proxy.example:3128", "http://proxy.example:3128", undefined],
    ["proxy.example", "http://proxy.example", undefined],
    ["HTTP://Proxy.Example:3128/", "http://proxy.example:3128", undefined],
    ["https://proxy.example", "https://proxy.example", undefined],
    ["http://[::1]:3128", "http://[::1]:3128", undefined],
    ["http://ann:p%40s:s@proxy.example:3128", "http://proxy.example:3128", "ann:p@s:s"],
    ["ann@proxy.example:3128", "http://proxy.example:3128", "ann:"],
    ["http://%zz:%@proxy.example", "http://proxy.example", "%zz:%"]
  ])("is read from %s", (text, url, credentials) => {
    const { authorization, url: found } = Proxies.parseProxy(text)
    assert.strictEqual(found, url)
    assert.strictEqual(
      authorization && Redacted.value(authorization),
      credentials && `Basic ${Buffer.from(credentials).toString("base64")}`
    )
  })

  it.each([
    "http://",
    ":3128",
    "http//proxy.example:3128",
    "http://proxy.example:99999",
    "http://proxy example",
    "http://proxy.example/path",
    "http://ann:pass#word@proxy.example:3128",
    "ftp://proxy.example",
    "socks5h://proxy.example:1080",
    "none of this"
  ])("is not read from %s", (text) => {
    assert.throws(() => Proxies.parseProxy(text), /must be the URL of an HTTP proxy, as in http:\/\//)
  })

  it("is never shown with its credentials", () => {
    const secret = "http://ann:secret/word@proxy.example:3128"
    assert.throws(() => Proxies.parseProxy(secret), /percent-encode/)
    assert.throws(() => Proxies.parseProxy(secret), /^(?!.*secret)/)
    const proxy = Proxies.parseProxy("http://ann:secret@proxy.example:3128")
    assert.notInclude(JSON.stringify(proxy) + Proxies.describe({ ...Proxies.none, https: proxy }), "secret")
  })
})

describe("a call", () => {
  it("uses the proxy of its scheme", () => {
    assert.strictEqual(proxyOf("http://x.example/"), http)
    assert.strictEqual(proxyOf("https://x.example/"), https)
    assert.isUndefined(Proxies.find({ ...Proxies.none, http }, Proxies.targetOf(new URL("https://x.example"))))
  })

  it.each("localhost LOCALHOST. a.localhost 127.0.0.1 127.1.2.3 [::1] 0.0.0.0 [::] [::ffff:127.0.0.1]".split(" "))(
    "to %s uses none",
    (host) => {
      assert.isUndefined(proxyOf(`http://${host}:3000/`))
      assert.isUndefined(proxyOf(`https://${host}/`))
    }
  )

  const direct = [
    ["*", "https://x.example"],
    ["x.example", "https://x.example"],
    ["X.Example", "https://x.EXAMPLE."],
    ["x.example", "https://a.b.x.example"],
    [".x.example", "https://a.x.example"],
    [".x.example", "https://x.example"],
    ["*.x.example", "https://a.x.example"],
    ["x.example.", "https://x.example"],
    ["a,x.example", "https://x.example"],
    [" a , x.example ", "https://x.example"],
    ["a x.example", "https://x.example"],
    ["x.example:443", "https://x.example"],
    ["x.example:8443", "https://x.example:8443"],
    ["x.example:80", "http://x.example"],
    ["*:8443", "https://x.example:8443"],
    ["10.1.2.3", "http://10.1.2.3"],
    ["10.0.0.0/8", "http://10.255.0.1"],
    ["10.1.2.3:80", "http://10.1.2.3"],
    ["fd00::1", "http://[fd00::1]"],
    ["[fd00::1]", "http://[fd00:0::1]"],
    ["[fd00::1]:80", "http://[fd00::1]"],
    ["fd00::/8", "http://[fd12::1]"]
  ] as const
  it.each(direct)("that NO_PROXY=%s excepts uses none: %s", (noProxy, url) => {
    assert.isUndefined(proxyOf(url, noProxy))
  })

  const proxied = [
    ["x.example", "https://ax.example"],
    ["x.example", "https://x.example.org"],
    ["*.x.example", "https://x.example"],
    ["x.example:8443", "https://x.example"],
    ["x.example:443", "http://x.example"],
    ["10.0.0.0/8", "http://11.0.0.1"],
    ["10.1.2.3", "http://10.1.2.30"],
    ["10.1.2.3:443", "http://10.1.2.3"],
    ["fd00::1", "http://[fd00::2]"],
    ["1", "http://10.0.0.1"],
    [",", "https://x.example"]
  ] as const
  it.each(proxied)("that NO_PROXY=%s does not except uses one: %s", (noProxy, url) => {
    assert.isDefined(proxyOf(url, noProxy))
  })

  const wrong = [
    "10.0.0.0/33",
    "10.0.0.0/255.0.0.0",
    "10.0.*",
    "http://x.example",
    "10.0.0.0/8/8",
    "x.example/y",
    "x.example:y",
    "<local>",
    "."
  ]
  it.each(wrong)("that the entry %s of NO_PROXY is about uses one, and the other entries count", (entry) => {
    const noProxy = `a.example,${entry}\n\tb.example`
    assert.deepStrictEqual(Proxies.parseExceptions(noProxy).wrong, [entry])
    for (const host of ["x.example", "10.0.0.1"]) assert.isDefined(proxyOf(`http://${host}`, noProxy))
    for (const host of ["a.example", "b.example"]) assert.isUndefined(proxyOf(`http://${host}`, noProxy))
  })

  it("shows no password of an entry", () => {
    assert.deepStrictEqual(Proxies.parseExceptions("http://ann:p@ss@x.example").wrong, ["***@x.example"])
  })
})
